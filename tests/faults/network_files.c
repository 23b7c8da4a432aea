/* What a network file system lacks, for every path below $NETWORK_FILES: hard links, files without a name, sockets,
   and times finer than a second. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int is_there(int folder, const char *path) {
    const char *root = getenv("NETWORK_FILES");
    char whole[PATH_MAX * 2], link[64], real[PATH_MAX];
    if (!root || !path) return 0;
    if (path[0] != '/' && folder != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t size = readlink(link, real, sizeof real - 1);
        if (size < 0) return 0;
        real[size] = 0;
        snprintf(whole, sizeof whole, "%s/%s", real, path);
    } else if (path[0] != '/') {
        if (!getcwd(real, sizeof real)) return 0;
        snprintf(whole, sizeof whole, "%s/%s", real, path);
    } else {
        snprintf(whole, sizeof whole, "%s", path);
    }
    return !strncmp(whole, root, strlen(root));
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    static int (*real)(int, const char *, int, const char *, int);
    if (!real) real = dlsym(RTLD_NEXT, "linkat");
    if (is_there(to, new)) return errno = EOPNOTSUPP, -1;
    return real(from, old, to, new, flags);
}

int link(const char *old, const char *new) {
    return linkat(AT_FDCWD, old, AT_FDCWD, new, 0);
}

#define OPENS(name)                                                                  \
    int name(const char *path, int flags, ...) {                                     \
        static int (*real)(const char *, int, ...);                                  \
        if (!real) real = dlsym(RTLD_NEXT, #name);                                   \
        va_list rest;                                                                \
        va_start(rest, flags);                                                       \
        mode_t mode = va_arg(rest, mode_t);                                          \
        va_end(rest);                                                                \
        if ((flags & O_TMPFILE) == O_TMPFILE && is_there(AT_FDCWD, path))            \
            return errno = EOPNOTSUPP, -1;                                           \
        return real(path, flags, mode);                                              \
    }
OPENS(open)
OPENS(open64)

int bind(int fd, const struct sockaddr *address, socklen_t size) {
    static int (*real)(int, const struct sockaddr *, socklen_t);
    if (!real) real = dlsym(RTLD_NEXT, "bind");
    if (address->sa_family == AF_UNIX && is_there(AT_FDCWD, ((const struct sockaddr_un *)address)->sun_path))
        return errno = EOPNOTSUPP, -1;
    return real(fd, address, size);
}

static void coarse(struct stat *found) {
    found->st_mtim.tv_nsec = found->st_ctim.tv_nsec = found->st_atim.tv_nsec = 0;
}

int fstatat64(int folder, const char *path, struct stat64 *found, int flags) {
    static int (*real)(int, const char *, struct stat64 *, int);
    if (!real) real = dlsym(RTLD_NEXT, "fstatat64");
    int answer = real(folder, path, found, flags);
    if (!answer && is_there(folder, path)) coarse((struct stat *)found);
    return answer;
}

int stat64(const char *path, struct stat64 *found) {
    return fstatat64(AT_FDCWD, path, found, 0);
}

int lstat64(const char *path, struct stat64 *found) {
    return fstatat64(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW);
}

int fstat64(int fd, struct stat64 *found) {
    static int (*real)(int, struct stat64 *);
    char link[64], path[PATH_MAX];
    if (!real) real = dlsym(RTLD_NEXT, "fstat64");
    int answer = real(fd, found);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 0) {
        path[size] = 0;
        if (!answer && is_there(AT_FDCWD, path)) coarse((struct stat *)found);
    }
    return answer;
}
