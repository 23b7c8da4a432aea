/* PPO on two small MLPs without a call per operation: the forward pass, its head, the loss of a minibatch with its
   gradient, and Adam. Compiled once for each instruction set that KERNELS names, and chosen at run time.

   The formulas are those of heads.py, losses.py and optimizer.py in the folder ppo, which say where they
   come from; sums run in another order than torch's. The order of a row's sums does not depend on the rows beside it:
   what a policy says of an observation is the same while acting and while learning. */

#include "kernels.h"

#include <math.h>
#include <string.h>

#ifndef KERNELS
#define KERNELS(name) name##_base
#define WIDTH 4 /* floats in a register */
#define TILE_ROWS 4
#define TILE_LANES 2
#endif

typedef float lane __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t ilane __attribute__((vector_size(4 * WIDTH), aligned(4)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")

INLINE lane all(float value) {
    return (lane){0} + value;
}

INLINE lane load(const float *from) {
    return *(const lane *)from;
}

INLINE void store(float *to, lane value) {
    *(lane *)to = value;
}

INLINE lane either(ilane which, lane yes, lane no) {
    return (lane)(((ilane)yes & which) | ((ilane)no & ~which));
}

/* A nan stays one: comparisons with it are false. */
INLINE lane within(lane x, float least, float most) {
    x = either(x < all(least), all(least), x);
    return either(x > all(most), all(most), x);
}

/* e^x by Cody and Waite's reduction and the polynomial of Cephes' expf: right to two units in the last place. */
INLINE lane exponential(lane x) {
    x = within(x, -87.3f, 88.3f);
    lane shifted = x * all(1.44269504088896341f) + all(12582912.0f); /* 1.5 * 2^23: rounds to a whole number */
    lane whole = shifted - all(12582912.0f);
    lane rest = x - whole * all(0.693359375f);
    rest = rest + whole * all(2.12194440e-4f);
    lane y = all(1.9875691500e-4f);
    y = y * rest + all(1.3981999507e-3f);
    y = y * rest + all(8.3334519073e-3f);
    y = y * rest + all(4.1665795894e-2f);
    y = y * rest + all(1.6666665459e-1f);
    y = y * rest + all(5.0000001201e-1f);
    y = y * rest * rest + rest + all(1.0f);
    ilane power = __builtin_convertvector(whole, ilane);
    return (lane)((ilane)y + (power << 23));
}

/* The quotient of an odd and an even polynomial on [-7.9, 7.9], beyond which tanh is 1 in single precision; the
   coefficients are those of Eigen's approximation, right to about three units in the last place. */
INLINE lane hyperbolic_tangent(lane x) {
    lane bounded = within(x, -7.90531110763549805f, 7.90531110763549805f);
    lane square = bounded * bounded;
    lane above = all(-2.76076847742355e-16f);
    above = above * square + all(2.00018790482477e-13f);
    above = above * square + all(-8.60467152213735e-11f);
    above = above * square + all(5.12229709037114e-08f);
    above = above * square + all(1.48572235717979e-05f);
    above = above * square + all(6.37261928875436e-04f);
    above = above * square + all(4.89352455891786e-03f);
    lane below = all(1.19825839466702e-06f);
    below = below * square + all(1.18534705686654e-04f);
    below = below * square + all(2.26843463243900e-03f);
    below = below * square + all(4.89352518554385e-03f);
    lane small = bounded * bounded;
    lane quotient = bounded * above / below;
    return either(small < all(1.6e-7f), x, quotient);
}

INLINE lane activated(lane x, int64_t activation) {
    if (activation == TANH) return hyperbolic_tangent(x);
    if (activation == RELU) return either(x < all(0.0f), all(0.0f), x);
    return x;
}

/* A tile of TILE_ROWS x `lanes` of output = start + left x right. `left` is stepped by `row` from one row of the output
   to the next and by `along` through the sum, so that it may lie transposed; no `start` is zero. */
INLINE void tile(const int lanes, int64_t depth, const float *left, int64_t row, int64_t along, const float *right,
                 int64_t right_step, const float *start, int64_t start_step, float *output, int64_t output_step) {
    lane sums[TILE_ROWS][TILE_LANES];
    UNROLLED for (int i = 0; i < TILE_ROWS; i++)
        UNROLLED for (int j = 0; j < lanes; j++) sums[i][j] = start ? load(start + i * start_step + WIDTH * j) : all(0.0f);
    for (int64_t k = 0; k < depth; k++) {
        lane across[TILE_LANES];
        UNROLLED for (int j = 0; j < lanes; j++) across[j] = load(right + k * right_step + WIDTH * j);
        UNROLLED for (int i = 0; i < TILE_ROWS; i++) {
            lane one = all(left[i * row + k * along]);
            UNROLLED for (int j = 0; j < lanes; j++) sums[i][j] += one * across[j];
        }
    }
    UNROLLED for (int i = 0; i < TILE_ROWS; i++)
        UNROLLED for (int j = 0; j < lanes; j++) store(output + i * output_step + WIDTH * j, sums[i][j]);
}

/* The same for `rows` x `width`; `rows` is rounded up to TILE_ROWS. */
INLINE void tiles(int64_t rows, int64_t width, int64_t depth, const float *left, int64_t row, int64_t along,
                  const float *right, int64_t right_step, const float *start, int64_t start_step, float *output,
                  int64_t output_step) {
    int64_t column = 0;
    for (; column + WIDTH * TILE_LANES <= width; column += WIDTH * TILE_LANES)
        for (int64_t r = 0; r < rows; r += TILE_ROWS)
            tile(TILE_LANES, depth, left + r * row, row, along, right + column, right_step,
                 start ? start + r * start_step + column : 0, start_step, output + r * output_step + column, output_step);
    for (; column < width; column += WIDTH)
        for (int64_t r = 0; r < rows; r += TILE_ROWS)
            tile(1, depth, left + r * row, row, along, right + column, right_step,
                 start ? start + r * start_step + column : 0, start_step, output + r * output_step + column, output_step);
}

/* output (rows, width) = left (rows, depth) x right (depth, width) + bias, which may be missing. */
static void multiply(int64_t rows, int64_t width, int64_t depth, const float *left, int64_t left_step,
                     const float *right, int64_t right_step, const float *bias, float *output, int64_t output_step) {
    tiles(rows, width, depth, left, left_step, 1, right, right_step, bias, 0, output, output_step);
}

/* sum (rows, width) += left (depth, rows), transposed, x right (depth, width). */
static void add_outer(int64_t rows, int64_t width, int64_t depth, const float *left, int64_t left_step,
                      const float *right, int64_t right_step, float *sum, int64_t sum_step) {
    tiles(rows, width, depth, left, 1, left_step, right, right_step, sum, sum_step, sum, sum_step);
}

void KERNELS(pack)(const net *each) {
    for (int64_t l = 0; l < each->depth; l++) {
        const layer *it = &each->layers[l];
        for (int64_t o = 0; o < it->out; o++) {
            memcpy(it->padded + o * it->in_room, it->weight + o * it->in, sizeof(float) * it->in);
            for (int64_t i = 0; i < it->in; i++) it->packed[i * it->out_room + o] = it->weight[o * it->in + i];
        }
        memcpy(it->packed_bias, it->bias, sizeof(float) * it->out);
    }
}

static void take(const net *each, float *features, const float *observations, int64_t rows) {
    const layer *first = &each->layers[0];
    for (int64_t row = 0; row < rows; row++)
        memcpy(features + row * first->in_room, observations + row * first->in, sizeof(float) * first->in);
}

/* The same of the observations at `order`. */
static void gather(const net *each, float *features, const float *observations, const int64_t *order, int64_t rows) {
    const layer *first = &each->layers[0];
    for (int64_t row = 0; row < rows; row++)
        memcpy(features + row * first->in_room, observations + order[row] * first->in, sizeof(float) * first->in);
}

/* The last layer's output for the block in `features`. */
static const float *forward(const net *each, const float *features, int64_t rows) {
    const float *below = features;
    for (int64_t l = 0; l < each->depth; l++) {
        const layer *it = &each->layers[l];
        multiply(rows, it->out_room, it->in, below, it->in_room, it->packed, it->out_room, it->packed_bias, it->output,
                 it->out_room);
        if (it->activation != LINEAR)
            for (int64_t i = 0; i < rows * it->out_room; i += WIDTH)
                store(it->output + i, activated(load(it->output + i), it->activation));
        below = it->output;
    }
    return below;
}

/* Adds a block's share to every layer's sums, from the last layer's slope. */
static void backward(const net *each, const float *features, int64_t rows) {
    for (int64_t l = each->depth - 1; l >= 0; l--) {
        const layer *it = &each->layers[l];
        if (it->activation == TANH)
            for (int64_t i = 0; i < rows * it->out_room; i += WIDTH) {
                lane said = load(it->output + i);
                store(it->slope + i, load(it->slope + i) * (all(1.0f) - said * said));
            }
        else if (it->activation == RELU)
            for (int64_t i = 0; i < rows * it->out_room; i += WIDTH)
                store(it->slope + i, either(load(it->output + i) > all(0.0f), load(it->slope + i), all(0.0f)));
        const float *below = l ? each->layers[l - 1].output : features;
        add_outer(it->out, it->in_room, rows, it->slope, it->out_room, below, it->in_room, it->weight_sum, it->in_room);
        for (int64_t o = 0; o < it->out_room; o += WIDTH) {
            lane sum = load(it->bias_sum + o);
            for (int64_t row = 0; row < rows; row++) sum += load(it->slope + row * it->out_room + o);
            store(it->bias_sum + o, sum);
        }
        if (l)
            multiply(rows, it->in_room, it->out, it->slope, it->out_room, it->padded, it->in_room, 0,
                     each->layers[l - 1].slope, it->in_room);
    }
}

static void begin_sums(const net *each) {
    for (int64_t l = 0; l < each->depth; l++) {
        const layer *it = &each->layers[l];
        memset(it->weight_sum, 0, sizeof(float) * it->out_room * it->in_room);
        memset(it->bias_sum, 0, sizeof(float) * it->out_room);
    }
}

static void write_gradients(const net *each) {
    for (int64_t l = 0; l < each->depth; l++) {
        const layer *it = &each->layers[l];
        for (int64_t o = 0; o < it->out; o++)
            memcpy(it->weight_gradient + o * it->in, it->weight_sum + o * it->in_room, sizeof(float) * it->in);
        memcpy(it->bias_gradient, it->bias_sum, sizeof(float) * it->out);
    }
}

/* Turns the actor's output of a block into log-probabilities of every choice, in place. `probabilities` alike. */
static void normalize(const plan *p, float *output, float *probabilities, int64_t rows) {
    int64_t step = p->actor.layers[p->actor.depth - 1].out_room;
    for (int64_t row = 0; row < rows; row++) {
        float *z = output + row * step;
        for (int64_t part = 0; part < p->actions; z += p->sizes[part++]) {
            float most = z[0];
            for (int64_t c = 1; c < p->sizes[part]; c++) most = z[c] > most ? z[c] : most;
            for (int64_t c = 0; c < p->sizes[part]; c++) z[c] -= most;
        }
    }
    for (int64_t i = 0; i < rows * step; i += WIDTH) store(probabilities + i, exponential(load(output + i)));
    for (int64_t row = 0; row < rows; row++) {
        float *z = output + row * step, *e = probabilities + row * step;
        for (int64_t part = 0; part < p->actions; part++) {
            float sum = 0.0f;
            for (int64_t c = 0; c < p->sizes[part]; c++) sum += e[c];
            float logarithm = logf(sum), share = 1.0f / sum;
            for (int64_t c = 0; c < p->sizes[part]; c++) z[c] -= logarithm, e[c] *= share;
            z += p->sizes[part], e += p->sizes[part];
        }
    }
}

static const float HALF_LOG_2_PI = 0.918938533204672742f;

/* The scales of a Gaussian head. */
static void fill_scales(const plan *p, float *scales) {
    if (p->head == GAUSSIAN)
        for (int64_t a = 0; a < p->actions; a++) scales[a] = expf(p->log_std[a]);
}

/* What a row's action has as its log-probability. */
static float log_probability(const plan *p, const float *output, const float *scales, const void *actions, int64_t row) {
    float sum = 0.0f;
    if (p->head == CATEGORICAL) {
        const int64_t *chosen = (const int64_t *)actions + row * p->actions;
        for (int64_t part = 0; part < p->actions; output += p->sizes[part++]) sum += output[chosen[part]];
        return sum;
    }
    const float *done = (const float *)actions + row * p->actions;
    for (int64_t a = 0; a < p->actions; a++) {
        float distance = done[a] - output[a];
        sum += -(distance * distance) / (2.0f * scales[a] * scales[a]) - logf(scales[a]) - HALF_LOG_2_PI;
    }
    return sum;
}

/* Actions and their log-probabilities for the observations `begin` to `end` of `rows`.

   `noise`: for a categorical head, head after head, (rows, size) draws of a standard exponential distribution; for a
   Gaussian one (rows, actions) of a standard normal one. */
void KERNELS(act)(const plan *p, int64_t begin, int64_t end, int64_t rows, const float *observations,
                  const float *noise, void *actions, float *log_probs) {
    const layer *last = &p->actor.layers[p->actor.depth - 1];
    float *probabilities = last->slope; /* free while acting */
    float scales[p->actions];
    fill_scales(p, scales);
    for (int64_t from = begin; from < end; from += BLOCK) {
        int64_t count = end - from < BLOCK ? end - from : BLOCK;
        take(&p->actor, p->features, observations + from * p->actor.layers[0].in, count);
        float *output = (float *)forward(&p->actor, p->features, count);
        if (p->head == CATEGORICAL) {
            const float *drawn = noise;
            int64_t *chosen = (int64_t *)actions + from * p->actions;
            for (int64_t part = 0, at = 0; part < p->actions; at += p->sizes[part++]) {
                int64_t size = p->sizes[part];
                for (int64_t row = 0; row < count; row++) {
                    const float *z = output + row * last->out_room + at, *waits = drawn + (from + row) * size;
                    float best = z[0] - logf(waits[0]);
                    int64_t which = 0;
                    for (int64_t c = 1; c < size; c++) {
                        float other = z[c] - logf(waits[c]);
                        if (other > best || (other != other && best == best)) best = other, which = c;
                    }
                    chosen[row * p->actions + part] = which;
                }
                drawn += rows * size;
            }
            normalize(p, output, probabilities, count);
        } else {
            float *done = (float *)actions + from * p->actions;
            for (int64_t row = 0; row < count; row++)
                for (int64_t a = 0; a < p->actions; a++) {
                    float drawn = noise[(from + row) * p->actions + a];
                    done[row * p->actions + a] = output[row * last->out_room + a] + drawn * scales[a];
                }
        }
        for (int64_t row = 0; row < count; row++)
            log_probs[from + row] = log_probability(p, output + row * last->out_room, scales, actions, from + row);
    }
}

void KERNELS(value)(const plan *p, int64_t rows, const float *observations, float *values) {
    int64_t step = p->critic.layers[p->critic.depth - 1].out_room;
    for (int64_t from = 0; from < rows; from += BLOCK) {
        int64_t count = rows - from < BLOCK ? rows - from : BLOCK;
        take(&p->critic, p->critic_features, observations + from * p->critic.layers[0].in, count);
        const float *output = forward(&p->critic, p->critic_features, count);
        for (int64_t row = 0; row < count; row++) values[from + row] = output[row * step];
    }
}

typedef struct {
    float mean, scale;
} moments;

static moments of_advantages(const minibatch *batch, const objective *aim) {
    if (!aim->normalized || batch->rows < 2) return (moments){0.0f, 1.0f};
    const float *advantages = batch->of->advantages;
    double sum = 0.0, squares = 0.0;
    for (int64_t row = 0; row < batch->rows; row++) sum += advantages[batch->order[row]];
    double mean = sum / batch->rows;
    for (int64_t row = 0; row < batch->rows; row++) {
        double off = advantages[batch->order[row]] - mean;
        squares += off * off;
    }
    return (moments){(float)mean, (float)sqrt(squares / (batch->rows - 1)) + 1e-8f};
}

/* Fills the slope of the actor's last layer for one row; returns its entropy. */
static float differentiate(const plan *p, const float *output, const float *probabilities, const float *scales,
                           float *slope, const void *actions, int64_t row, float to_log_prob, float to_entropy, double *entropies,
                           double *log_std_sums) {
    float whole = 0.0f;
    if (p->head == CATEGORICAL) {
        const int64_t *chosen = (const int64_t *)actions + row * p->actions;
        for (int64_t part = 0; part < p->actions; part++) {
            int64_t size = p->sizes[part];
            float entropy = 0.0f;
            for (int64_t c = 0; c < size; c++) entropy -= output[c] * probabilities[c];
            for (int64_t c = 0; c < size; c++)
                slope[c] = -probabilities[c] * (to_log_prob + to_entropy * (output[c] + entropy));
            slope[chosen[part]] += to_log_prob;
            entropies[part] += entropy, whole += entropy;
            output += size, probabilities += size, slope += size;
        }
        return whole;
    }
    const float *done = (const float *)actions + row * p->actions;
    for (int64_t a = 0; a < p->actions; a++) {
        float distance = done[a] - output[a], spread = scales[a] * scales[a];
        slope[a] = to_log_prob * distance / spread;
        /* By log_std, not by the scale: times the scale is already in it. */
        log_std_sums[a] += to_log_prob * (distance * distance / spread - 1.0f) + to_entropy;
        whole += 0.5f + HALF_LOG_2_PI + logf(scales[a]);
    }
    return whole;
}

/* The actor's part in the losses of a minibatch; the gradient of each of its parameters is written. */
learned KERNELS(learn_actor)(const plan *p, const minibatch *batch, const objective *aim, const losses *said) {
    const layer *actor = &p->actor.layers[p->actor.depth - 1];
    float probabilities[BLOCK * actor->out_room], scales[p->actions];
    double entropies[p->actions], log_std_sums[p->actions];
    learned sums = {0.0, 0.0, 0.0, 0, 0.0f};
    const rollout *of = batch->of;
    moments advantage = of_advantages(batch, aim);
    float share = 1.0f / batch->rows, to_entropy = -aim->entropy / batch->rows;
    fill_scales(p, scales);
    memset(entropies, 0, sizeof entropies);
    memset(log_std_sums, 0, sizeof log_std_sums);
    begin_sums(&p->actor);
    for (int64_t from = 0; from < batch->rows; from += BLOCK) {
        int64_t count = batch->rows - from < BLOCK ? batch->rows - from : BLOCK;
        gather(&p->actor, p->features, of->observations, batch->order + from, count);
        float *output = (float *)forward(&p->actor, p->features, count);
        if (p->head == CATEGORICAL) normalize(p, output, probabilities, count);
        memset(actor->slope, 0, sizeof(float) * count * actor->out_room);
        for (int64_t row = 0; row < count; row++) {
            int64_t at = batch->order[from + row];
            const float *z = output + row * actor->out_room;
            float log_ratio = log_probability(p, z, scales, of->actions, at) - of->old_log_probs[at];
            float ratio = expf(log_ratio), held = ratio;
            if (held < 1.0f - aim->clip) held = 1.0f - aim->clip;
            if (held > 1.0f + aim->clip) held = 1.0f + aim->clip;
            float gain = (of->advantages[at] - advantage.mean) / advantage.scale;
            float plain = gain * ratio, clipped = gain * held;
            float to_log_prob = plain > clipped ? 0.0f : -gain * share;
            /* An ulp outside the range both products may round to one number: then each has one half. */
            if (plain == clipped && ratio != held) to_log_prob *= 0.5f;
            to_log_prob *= ratio;
            sums.policy_loss -= plain > clipped ? clipped : plain;
            said->log_ratios[from + row] = log_ratio;
            float change = ratio - 1.0f, distance = fabsf(change);
            sums.divergence += change - log_ratio;
            sums.beyond += distance > aim->clip;
            if (distance > sums.farthest || distance != distance) sums.farthest = distance; /* nan stays: none is more */
            sums.entropy += differentiate(p, z, probabilities + row * actor->out_room, scales,
                                          actor->slope + row * actor->out_room, of->actions, at, to_log_prob,
                                          to_entropy, entropies, log_std_sums);
        }
        backward(&p->actor, p->features, count);
    }
    write_gradients(&p->actor);
    if (p->head == GAUSSIAN)
        for (int64_t a = 0; a < p->actions; a++) p->log_std_gradient[a] = (float)log_std_sums[a];
    for (int64_t a = 0; a < p->actions; a++) said->head_entropy[a] = (float)(entropies[a] / batch->rows);
    return sums;
}

/* The critic's: returns the sum of squares of what it is off by. It shares nothing that is written with the actor. */
double KERNELS(learn_critic)(const plan *p, const minibatch *batch, const objective *aim) {
    const layer *critic = &p->critic.layers[p->critic.depth - 1];
    float share = 1.0f / batch->rows;
    double squares = 0.0;
    const rollout *of = batch->of;
    begin_sums(&p->critic);
    for (int64_t from = 0; from < batch->rows; from += BLOCK) {
        int64_t count = batch->rows - from < BLOCK ? batch->rows - from : BLOCK;
        gather(&p->critic, p->critic_features, of->observations, batch->order + from, count);
        forward(&p->critic, p->critic_features, count);
        memset(critic->slope, 0, sizeof(float) * count * critic->out_room);
        for (int64_t row = 0; row < count; row++) {
            int64_t at = batch->order[from + row];
            float value = critic->output[row * critic->out_room], predicted = value, held_back = 0.0f;
            if (aim->clip_value >= 0.0f) {
                float change = value - of->old_values[at];
                held_back = change < -aim->clip_value || change > aim->clip_value;
                if (change < -aim->clip_value) change = -aim->clip_value;
                if (change > aim->clip_value) change = aim->clip_value;
                predicted = of->old_values[at] + change;
            }
            float off = predicted - of->returns[at];
            squares += (double)off * off;
            critic->slope[row * critic->out_room] = held_back ? 0.0f : 2.0f * aim->value * off * share;
        }
        backward(&p->critic, p->critic_features, count);
    }
    write_gradients(&p->critic);
    return squares;
}

/* The norm of all gradients. */
float KERNELS(gradient_norm)(const adam *it) {
    double squares = 0.0;
    for (int64_t from = 0; from < it->size; from += 4096) {
        int64_t until = from + 4096 < it->size ? from + 4096 : it->size;
        lane sum = all(0.0f);
        int64_t i = from;
        for (; i + WIDTH <= until; i += WIDTH) sum += load(it->gradients + i) * load(it->gradients + i);
        for (int j = 0; j < WIDTH; j++) squares += sum[j];
        for (; i < until; i++) squares += (double)it->gradients[i] * it->gradients[i];
    }
    return (float)sqrt(squares);
}

/* A step of Adam on gradients clipped by their `norm`. One of nan spoils every parameter, as torch's. */
void KERNELS(descend)(const adam *it, float norm) {
    float scale = it->max_norm / (norm + 1e-6f);
    if (scale > 1.0f) scale = 1.0f;
    const float beta2 = it->beta2, fresh1 = 1.0f - it->beta1, fresh2 = 1.0f - beta2, epsilon = it->epsilon;
    const float rate = it->rate / it->correction1, correction2 = it->correction2;
    float *restrict values = it->values, *restrict gradients = it->gradients;
    float *restrict firsts = it->first, *restrict seconds = it->second;
    for (int64_t i = 0; i < it->size; i++) {
        float gradient = gradients[i] * scale;
        float first = firsts[i] + fresh1 * (gradient - firsts[i]);
        float second = seconds[i] * beta2 + fresh2 * gradient * gradient;
        gradients[i] = gradient;
        firsts[i] = first;
        seconds[i] = second;
        values[i] -= rate * (first / (sqrtf(second) / correction2 + epsilon));
    }
}
