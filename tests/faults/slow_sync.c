/* A disk that takes $SLOW_SYNC_US longer for each sync while the file $SLOW_SYNC is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_disk(void) {
    const char *flag = getenv("SLOW_SYNC"), *us = getenv("SLOW_SYNC_US");
    if (flag && us && access(flag, F_OK) == 0) usleep(atoi(us));
}
int fsync(int fd) { wait_for_disk(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { wait_for_disk(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
