/* The kernels by the names that Python knows, each in the widest instruction set that this processor has. */

#include "kernels.h"

#define DECLARED(set)                                                                                            \
    void pack_##set(const net *);                                                                                \
    void act_##set(const plan *, int64_t, int64_t, int64_t, const float *, const float *, void *, float *);      \
    void value_##set(const plan *, int64_t, const float *, float *);                                             \
    learned learn_actor_##set(const plan *, const minibatch *, const objective *, const losses *);               \
    double learn_critic_##set(const plan *, const minibatch *, const objective *);                               \
    float gradient_norm_##set(const adam *);                                                                     \
    void descend_##set(const adam *, float);

DECLARED(base)
#ifdef __x86_64__
DECLARED(avx2)
DECLARED(avx512)
#define CHOSEN(name, ...) \
    (level == 2 ? name##_avx512(__VA_ARGS__) : level == 1 ? name##_avx2(__VA_ARGS__) : name##_base(__VA_ARGS__))
#else
#define CHOSEN(name, ...) name##_base(__VA_ARGS__)
#endif

#ifndef SOURCE
#define SOURCE ""
#endif
static int level = 0;

/* A digest of the sources. */
const char *mission_tui_compiled_from(void) {
    return SOURCE;
}

/* The widest instruction set of at most `most`: 0 is what every processor of this kind has, 1 AVX2, 2 AVX-512. */
int mission_tui_level(int most) {
    level = 0;
#ifdef __x86_64__
    __builtin_cpu_init();
    if (most >= 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) level = 1;
    if (most >= 2 && level == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) level = 2;
#else
    (void)most;
#endif
    return level;
}

int mission_tui_used(void) {
    return level;
}

void mission_tui_pack(const plan *p) {
    CHOSEN(pack, &p->actor);
    CHOSEN(pack, &p->critic);
}

/* Half of `rows` in whole blocks, for the thread that asks; all of them where two threads are not worth it. */
static int64_t first_share(const plan *p, int64_t rows) {
    return p->twin && rows >= 4 * BLOCK ? rows / (2 * BLOCK) * BLOCK : rows;
}

typedef struct {
    const plan *p;
    int64_t begin, rows;
    const float *observations, *noise;
    void *actions;
    float *said;
} passes;

static void act_on_rest(void *of) {
    const passes *it = of;
    CHOSEN(act, it->p, it->begin, it->rows, it->rows, it->observations, it->noise, it->actions, it->said);
}

void mission_tui_act(const plan *p, int64_t rows, const float *observations, const float *noise, void *actions,
                     float *log_probs) {
    int64_t mine = first_share(p, rows);
    passes rest = {p->twin, mine, rows, observations, noise, actions, log_probs};
    int shared = mine < rows && offer(act_on_rest, &rest);
    CHOSEN(act, p, 0, shared ? mine : rows, rows, observations, noise, actions, log_probs);
    if (shared) take_back();
}

static void value_rest(void *of) {
    const passes *it = of;
    CHOSEN(value, it->p, it->rows - it->begin, it->observations + it->begin * it->p->critic.layers[0].in,
           it->said + it->begin);
}

void mission_tui_value(const plan *p, int64_t rows, const float *observations, float *values) {
    int64_t mine = first_share(p, rows);
    passes rest = {p->twin, mine, rows, observations, 0, 0, values};
    int shared = mine < rows && offer(value_rest, &rest);
    CHOSEN(value, p, shared ? mine : rows, observations, values);
    if (shared) take_back();
}

typedef struct {
    const plan *p;
    const minibatch *batch;
    const objective *aim;
    double squares;
} critic_part;

static void learn_critic(void *of) {
    critic_part *it = of;
    CHOSEN(pack, &it->p->critic);
    it->squares = CHOSEN(learn_critic, it->p, it->batch, it->aim);
}

/* The losses of a minibatch; every parameter's gradient is written. */
void mission_tui_learn(const plan *p, const minibatch *batch, const objective *aim, const losses *said) {
    critic_part critic = {p, batch, aim, 0.0};
    int shared = p->twin && offer(learn_critic, &critic);
    CHOSEN(pack, &p->actor);
    learned actor = CHOSEN(learn_actor, p, batch, aim, said);
    if (shared)
        take_back();
    else
        learn_critic(&critic);
    double policy = actor.policy_loss / batch->rows, value = critic.squares / batch->rows;
    double entropy = -actor.entropy / batch->rows;
    said->numbers[0] = (float)policy;
    said->numbers[1] = (float)value;
    said->numbers[2] = (float)entropy;
    said->numbers[3] = (float)(policy + (double)aim->entropy * entropy + (double)aim->value * value);
    said->numbers[4] = (float)actor.beyond / batch->rows;
    said->numbers[5] = (float)(actor.divergence / batch->rows);
    said->numbers[6] = actor.farthest;
}

/* One step of Adam on clipped gradients; returns their norm before. Halves of the parameters on two threads are no
   faster: those of the widest layers are stepped in less time than it takes to tell the other thread. */
float mission_tui_descend(const adam *it) {
    float norm = CHOSEN(gradient_norm, it);
    CHOSEN(descend, it, norm);
    return norm;
}
