/* The kernels by the names that Python knows, each in the widest instruction set that this processor has. */

#include "kernels.h"

#define DECLARED(set)                                                                                            \
    void pack_##set(const net *);                                                                                \
    void act_##set(const plan *, int64_t, const float *, const float *, void *, float *);                        \
    void value_##set(const plan *, int64_t, const float *, float *);                                             \
    void learn_##set(const plan *, const minibatch *, const objective *, const losses *);                        \
    float descend_##set(const adam *);

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

void mission_tui_act(const plan *p, int64_t rows, const float *observations, const float *noise, void *actions,
                     float *log_probs) {
    CHOSEN(act, p, rows, observations, noise, actions, log_probs);
}

void mission_tui_value(const plan *p, int64_t rows, const float *observations, float *values) {
    CHOSEN(value, p, rows, observations, values);
}

void mission_tui_learn(const plan *p, const minibatch *batch, const objective *aim, const losses *said) {
    mission_tui_pack(p);
    CHOSEN(learn, p, batch, aim, said);
}

float mission_tui_descend(const adam *it) {
    return CHOSEN(descend, it);
}
