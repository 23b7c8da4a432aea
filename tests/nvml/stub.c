/* libnvidia-ml.so.1 as a file wants it: each call reads $FAKE_NVML anew, so that a test edits a machine while it runs.
   gpu UUID BUSY USED TOTAL MILLIWATT CELSIUS | wave BUSY_MS PERIOD_MS (of all, by the monotonic clock) | fail FUNCTION CODE [INDEX] | hang FUNCTION | crash FUNCTION | leave FUNCTION CODE (the library ends the process) | print FUNCTION (a line on stdout) | process INDEX PID BYTES
   named HEX (what every device is called, in bytes) | many FUNCTION COUNT (so many it says there are, whatever there is)
   With -DDRIVER=450 the processes are told by _v2 alone, with -DDRIVER=418 by the first form alone, and clocks by the older name.
   using INDEX PID PERCENT | migmode INDEX (in MIG mode) | mig INDEX UUID USED TOTAL (an instance; as a device it has the index 1000 * (INDEX + 1) + how many came before) */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef struct { char uuid[64]; unsigned busy, milliwatt, celsius; u64 used, total; } gpu_t;
#ifndef DRIVER
#define DRIVER 580
#endif
#if DRIVER < 450
typedef struct { unsigned pid; u64 bytes; } process_t;
#define PROCESS(pid, bytes) (process_t){pid, bytes}
#else
typedef struct { unsigned pid; u64 bytes; unsigned instance, compute; } process_t;
#define PROCESS(pid, bytes) (process_t){pid, bytes, 0, 0}
#endif
typedef struct { unsigned pid; u64 t_us; unsigned sm, memory, encoder, decoder; } sample_t;

/* Whether the file says how many `function` is to count; then `count` is that. */
static int many(const char *function, unsigned *count) {
    char line[256], word[64];
    unsigned said;
    int found = 0;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "many %63s %u", word, &said) == 2 && !strcmp(word, function)) { *count = said; found = 1; }
    if (file) fclose(file);
    return found;
}

static int ask(const char *function, long index, gpu_t *gpu, process_t *processes, unsigned *count) {
    char line[256], word[64], name[64];
    long number = 0, instances = 0, at, period;
    unsigned pid, found = 0;
    int code = 0, given, known = index < 0;
    u64 bytes;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (!file) return 9;
    if (count && many(function, count)) { fclose(file); return index < 0 || processes ? 0 : 7; }
    while (fgets(line, sizeof line, file)) {
        gpu_t g = {0};
        if (sscanf(line, "gpu %63s %u %llu %llu %u %u", g.uuid, &g.busy, &g.used, &g.total, &g.milliwatt, &g.celsius) == 6) {
            if (number++ == index) { known = 1; if (gpu) *gpu = g; }
        } else if (sscanf(line, "mig %ld %63s %llu %llu", &at, g.uuid, &g.used, &g.total) == 4) {
            if (at == index / 1000 - 1 && instances++ == index % 1000) { known = 1; if (gpu) *gpu = g; }
        } else if (sscanf(line, "wave %ld %ld", &at, &period) == 2 && gpu) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            gpu->busy = (now.tv_sec * 1000 + now.tv_nsec / 1000000) % period < at ? 100 : 0;
        } else if (sscanf(line, "hang %63s", word) == 1) {
            while (!strcmp(word, function)) sleep(600);
        } else if (sscanf(line, "crash %63s", word) == 1) {
            if (!strcmp(word, function)) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
        } else if (sscanf(line, "leave %63s %d", word, &code) == 2) {
            if (!strcmp(word, function)) _exit(code);
            code = 0;
        } else if (sscanf(line, "print %63s", word) == 1) {
            if (!strcmp(word, function)) { printf("NVRM: something of the driver's own\n"); fflush(stdout); }
        } else if ((given = sscanf(line, "fail %63s %d %ld", name, &code, &at)) >= 2) {
            if (!strcmp(name, function) && (given == 2 || at == index)) { fclose(file); return code; }
        } else if (sscanf(line, "process %ld %u %llu", &at, &pid, &bytes) == 3 && at == index) {
            if (processes && found < *count) processes[found] = PROCESS(pid, bytes);
            found++;
        }
    }
    fclose(file);
    if (count) {
        unsigned room = processes ? *count : 0;
        *count = index < 0 ? (unsigned)number : found;
        if (index >= 0 && found > room) return 7;
    }
    return known ? 0 : 2;
}

/* How many lines begin with `word` and `index`; the first percents and processes of them. */
static unsigned lines_of(const char *word, long index, sample_t *samples, unsigned room) {
    char line[256], form[64];
    struct timespec now;
    unsigned found = 0, pid = 0, percent = 0;
    long at;
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    if (!file) return 0;
    snprintf(form, sizeof form, "%s %%ld %%u %%u", word);
    clock_gettime(CLOCK_REALTIME, &now);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, form, &at, &pid, &percent) >= 1 && at == index) {
            if (samples && found < room) samples[found] = (sample_t){pid, now.tv_sec * 1000000ull + now.tv_nsec / 1000, percent, 0, 0, 0};
            found++;
        }
    fclose(file);
    return found;
}

#define INDEX ((long)device - 1)
#define IN_MIG_MODE (lines_of("mig", INDEX, 0, 0) || lines_of("migmode", INDEX, 0, 0))
#define WHOLE_GPU if (INDEX >= 1000) return 3
#if DRIVER < 450
int nvmlInit_v2(void) { return ask("init", -1, 0, 0, 0); }
#else
int nvmlInitWithFlags(unsigned flags) { return ask("init", -1, 0, 0, 0); }
#endif
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : code == 15 ? "GPU is lost"
    : code == 18 ? "Driver/library version mismatch" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *count) { return ask("count", -1, 0, 0, count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return ask("handle", index, 0, 0, 0); }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) { gpu_t g = {0}; int code = ask("uuid", INDEX, &g, 0, 0); snprintf(text, size, "%s", g.uuid); return code; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    char line[256], hex[128];
    FILE *file = fopen(getenv("FAKE_NVML"), "r");
    snprintf(text, size, "Stub");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "named %127s", hex) == 1) {
            unsigned at = 0, byte;
            for (; sscanf(hex + 2 * at, "%2x", &byte) == 1; at++) text[at] = (char)byte;
            text[at] = 0;
        }
    if (file) fclose(file);
    return ask("name", INDEX, 0, 0, 0);
}
int nvmlDeviceGetMemoryInfo(void *device, u64 *memory) { gpu_t g = {0}; int code = ask("memory", INDEX, &g, 0, 0); memory[0] = g.total; memory[1] = g.total - g.used; memory[2] = g.used; return code; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { WHOLE_GPU; if (IN_MIG_MODE) return 3; gpu_t g = {0}; int code = ask("busy", INDEX, &g, 0, 0); rates[0] = g.busy; rates[1] = 0; return code; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt) { WHOLE_GPU; gpu_t g = {0}; int code = ask("power", INDEX, &g, 0, 0); *milliwatt = g.milliwatt; return code; }
int nvmlDeviceGetTemperature(void *device, int kind, unsigned *celsius) { WHOLE_GPU; gpu_t g = {0}; int code = ask("temperature", INDEX, &g, 0, 0); *celsius = g.celsius; return code; }
#if DRIVER < 450
#define RUNNING(kind) nvmlDeviceGet##kind##RunningProcesses
#elif DRIVER < 510
#define RUNNING(kind) nvmlDeviceGet##kind##RunningProcesses_v2
#else
#define RUNNING(kind) nvmlDeviceGet##kind##RunningProcesses_v3
#endif
int RUNNING(Compute)(void *device, unsigned *count, process_t *processes) { return ask("processes", INDEX, 0, processes, count); }
int RUNNING(Graphics)(void *device, unsigned *count, process_t *processes) { *count = 0; return ask("drawing", INDEX, 0, 0, 0); }
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz) { *mhz = 1500; return ask("clock", INDEX, 0, 0, 0); }
int nvmlDeviceGetComputeMode(void *device, unsigned *mode) { *mode = 0; return ask("mode", INDEX, 0, 0, 0); }
#if DRIVER < 535
#define SLOWED nvmlDeviceGetCurrentClocksThrottleReasons
#else
#define SLOWED nvmlDeviceGetCurrentClocksEventReasons
#endif
int SLOWED(void *device, u64 *reasons) { *reasons = 4; return ask("slowed", INDEX, 0, 0, 0); }
int nvmlDeviceGetProcessUtilization(void *device, sample_t *samples, unsigned *count, u64 since_us) {
    unsigned room = samples ? *count : 0;
    int code = ask("using", INDEX, 0, 0, 0);
    if (code) return code;
    if (INDEX >= 1000 || IN_MIG_MODE) return 3;
    if (many("using", count)) return samples ? 0 : 7;
    *count = lines_of("using", INDEX, samples, room);
    return *count > room ? 7 : *count || ask("nobody", INDEX, 0, 0, 0) ? 0 : 6;
}
int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) { int code = ask("migmode", INDEX, 0, 0, 0); *current = *pending = 1; return code ? code : IN_MIG_MODE ? 0 : 3; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = 7; return ask("migcount", INDEX, 0, 0, 0); }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **mig) {
    long place = 1000 * (INDEX + 1) + index;
    *mig = (void *)(place + 1);
    return ask("mighandle", place, 0, 0, 0) ? 6 : 0;
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { int code = ask("version", -1, 0, 0, 0); snprintf(text, size, "%d.82.07", DRIVER); return code; }
