/* A policy of two MLPs, actor and critic, as the kernels see it. Everything is single precision, row by row.

   Widths are rounded up to LANE floats in memory that belongs to the plan, so that no kernel has a remainder in its
   columns; what is beyond a width is zero wherever it is multiplied. */

#ifndef MISSION_TUI_KERNELS_H
#define MISSION_TUI_KERNELS_H

#include <stdint.h>

#define LANE 16
#define BLOCK 64 /* rows that go through all layers together: their activations stay in a core's second cache */
#define MOST_LAYERS 8

enum activation { LINEAR = 0, TANH = 1, RELU = 2 };
enum head { CATEGORICAL = 0, GAUSSIAN = 1 };

typedef struct {
    int64_t in, out, in_room, out_room; /* features, and the same rounded up to LANE */
    int64_t activation;
    const float *weight, *bias;         /* torch's: (out, in) and (out,) */
    float *weight_gradient, *bias_gradient;
    float *packed;                      /* (in, out_room): the weight transposed */
    float *padded;                      /* (out, in_room): the weight as it is */
    float *packed_bias;                 /* (out_room,) */
    float *weight_sum, *bias_sum;       /* (out_room, in_room) and (out_room,): gradients over the blocks so far */
    float *output, *slope;              /* (BLOCK, out_room): what the layer says, and the loss's gradient on it */
} layer;

typedef struct {
    int64_t depth;
    layer layers[MOST_LAYERS];
} net;

typedef struct plan {
    net actor, critic;
    int64_t head, choices, actions; /* outputs of the actor; components of an action */
    const int64_t *sizes;           /* choices of each component of a categorical head */
    const float *log_std;           /* (actions,), of a Gaussian head */
    float *log_std_gradient;
    float *features;                /* (BLOCK, in_room): observations of a block, for the actor */
    float *critic_features;         /* the same for the critic, which may be at another block */
    const struct plan *twin;        /* the same policy with memory of its own for a second thread; 0 where there is none */
} plan;

typedef struct {
    const float *observations, *old_values, *old_log_probs, *advantages, *returns;
    const void *actions; /* int64 for a categorical head, float for the others: (transitions, actions) */
} rollout;

typedef struct {
    const rollout *of;
    const int64_t *order; /* (rows,): the places of the transitions in the rollout */
    int64_t rows;
} minibatch;

typedef struct {
    float clip, clip_value; /* clip_value < 0: values are not clipped */
    float entropy, value;   /* coefficients */
    int64_t normalized;     /* whether advantages are, over the minibatch */
} objective;

typedef struct {
    float *numbers;      /* policy gradient loss, value loss, entropy loss, loss; of the ratios the share beyond the
                            clip range, the mean of (ratio - 1) - log(ratio), and the largest distance from 1 */
    float *log_ratios;   /* (rows,) */
    float *head_entropy; /* (actions,): the mean over the rows */
} losses;

typedef struct {
    double policy_loss, entropy, divergence; /* sums over the rows */
    int64_t beyond;
    float farthest;
} learned;

typedef struct {
    float *values, *gradients, *first, *second;
    int64_t size;
    float max_norm, rate, beta1, beta2, epsilon, correction1, correction2;
} adam;

/* second_thread.c */
int offer(void (*work)(void *), void *of);
void take_back(void);

#endif
