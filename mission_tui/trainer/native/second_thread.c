/* A second thread of this process that takes one job at a time, while the thread that offers it computes another.

   Whoever is free first does the job: an offer that the second thread has not taken when the first one comes back is
   done by the first. Where other programs keep the cores, two threads of one process only take turns, and to wait by
   spinning takes the core from the other one: as soon as that is noticed, offers are left out for a while, and then
   for longer. What is computed is the same on either thread. */

#include "kernels.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Between two minibatches lie some ten microseconds, between two jobs of one about one. Asleep, it is woken in fifty. */
#define AWAKE_NS 200000
/* Nothing of ours takes this long between two looks at the clock: another program had the core. */
#define PUT_ASIDE_NS 100000
#define MOST_LEFT_OUT 1024

enum state { NOTHING, OFFERED, TAKEN, DONE };

static _Atomic int state = NOTHING, asleep = 0, waiting = 0, engaged = 0, crowded = 0;
static void (*job)(void *);
static void *argument;
static pid_t begun_in = 0; /* a fork has no second thread */
static int64_t offered_ns, left_out = 0, to_leave_out = 0;

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static void breathe(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void sleep_while(int seen) {
    syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, seen, 0, 0, 0);
}

static void wake(void) {
    syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

static void *serve(void *unused) {
    (void)unused;
    prctl(PR_SET_NAME, "second thread");
    for (int64_t since_ns = now_ns(), before_ns = since_ns;;) {
        int seen = atomic_load(&state);
        int64_t at_ns = now_ns();
        if (seen == OFFERED && atomic_compare_exchange_strong(&state, &seen, TAKEN)) {
            job(argument);
            atomic_store(&state, DONE);
            if (atomic_load(&waiting)) wake();
            since_ns = before_ns = now_ns();
        } else if (at_ns - before_ns > PUT_ASIDE_NS || at_ns - since_ns > AWAKE_NS) {
            if (at_ns - before_ns > PUT_ASIDE_NS) atomic_store(&crowded, 1);
            atomic_store(&asleep, 1);
            if ((seen = atomic_load(&state)) != OFFERED) sleep_while(seen);
            atomic_store(&asleep, 0);
            since_ns = before_ns = now_ns();
        } else {
            before_ns = at_ns;
            breathe();
        }
    }
    return 0;
}

/* Signals stay those of the first thread. */
static int begin(void) {
    sigset_t every, before;
    pthread_t thread;
    sigfillset(&every);
    if (pthread_sigmask(SIG_SETMASK, &every, &before)) return 0;
    int failed = pthread_create(&thread, 0, serve, 0);
    pthread_sigmask(SIG_SETMASK, &before, 0);
    if (failed) return 0;
    pthread_detach(thread);
    return 1;
}

static void leave_out(void) {
    to_leave_out = to_leave_out < MOST_LEFT_OUT / 2 ? 2 * to_leave_out + 8 : MOST_LEFT_OUT;
    left_out = 0;
}

/* Offer `work` to the second thread; `take_back` must follow. Returns 0 where there is none to be had, where it has a
   job of another thread, or where offers were a loss: then `take_back` is not called. */
int offer(void (*work)(void *), void *of) {
    int free = 0;
    pid_t here = getpid();
    if (begun_in != here) {
        atomic_store(&state, NOTHING), atomic_store(&asleep, 0), atomic_store(&waiting, 0), atomic_store(&engaged, 0);
        if (!begin()) return 0;
        begun_in = here;
    }
    if (!atomic_compare_exchange_strong(&engaged, &free, 1)) return 0;
    if (atomic_exchange(&crowded, 0)) leave_out();
    if (left_out < to_leave_out) {
        left_out++;
        atomic_store(&engaged, 0);
        return 0;
    }
    job = work, argument = of, offered_ns = now_ns();
    atomic_store(&state, OFFERED);
    if (atomic_load(&asleep)) wake();
    return 1;
}

/* Returns when the offered work is done, by whichever thread. */
void take_back(void) {
    int seen = OFFERED;
    int64_t back_ns = now_ns();
    if (atomic_compare_exchange_strong(&state, &seen, NOTHING)) {
        if (back_ns - offered_ns > PUT_ASIDE_NS) leave_out();
        job(argument);
    } else {
        while (atomic_load(&state) != DONE) {
            if (now_ns() - back_ns < AWAKE_NS) {
                breathe();
            } else {
                atomic_store(&waiting, 1);
                sleep_while(TAKEN);
                atomic_store(&waiting, 0);
            }
        }
        atomic_store(&state, NOTHING);
        int64_t waited_ns = now_ns() - back_ns;
        if (waited_ns > PUT_ASIDE_NS && waited_ns > back_ns - offered_ns)
            leave_out();
        else if (left_out >= to_leave_out)
            to_leave_out /= 2;
    }
    atomic_store(&engaged, 0);
}
