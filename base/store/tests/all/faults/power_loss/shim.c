/*
 * Writes down what a process does to the files of one folder, in the order in which it does it.
 *
 * Loaded into the writer with LD_PRELOAD. FOLDER and LOG below are environment variables: the folder, as an
 * absolute path without links, and the file to write to. The log is what a model of a disk is fed with
 * afterwards, see disk.rs; log.rs reads it.
 *
 * One record is one writev() in append mode, so a process that is killed leaves whole records and at most one
 * that is cut off. A record stands before the call it describes, with two exceptions: the number of an opened or
 * copied descriptor is known only afterwards, and nobody can use it before the record is there. No lock is held
 * around record and call: whoever relies on an order between two calls makes the second after the first has
 * returned, and then the records are in that order as well.
 *
 * What the process says on its standard output is also written down: its acknowledgements thereby have a place
 * among the operations.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOLDER "PILOTHOUSE_SHIM_FOLDER"
#define LOG "PILOTHOUSE_SHIM_LOG"
#define MAGIC 0x50485348u
#define DESCRIPTORS 4096

enum kind { OPENED = 1, CLOSED, COPIED, WROTE, RESIZED, SYNCED, RENAMED, LINKED, UNLINKED, SAID };

struct header {
    uint32_t magic;
    uint32_t kind;
    int64_t first;
    int64_t second;
    uint64_t length; /* of what follows */
};

static const char *folder;
static size_t folder_length;
static int log_file = -1;
static volatile char followed[DESCRIPTORS];

/* The function that would have been called without this library. */
#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void die(const char *what) {
    perror(what);
    abort();
}

__attribute__((constructor)) static void start(void) {
    const char *path = getenv(LOG);
    folder = getenv(FOLDER);
    if (!path || !folder) return;
    folder_length = strlen(folder);
    int (*real_open)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    log_file = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_file < 0) die(path);
}

static void note(enum kind kind, int64_t first, int64_t second, const struct iovec *data, int parts) {
    REAL(writev);
    int before = errno;
    struct header header = {MAGIC, kind, first, second, 0};
    struct iovec all[17];
    if (parts > 16) die("too many parts");
    all[0] = (struct iovec){&header, sizeof header};
    for (int i = 0; i < parts; i++) {
        all[i + 1] = data[i];
        header.length += data[i].iov_len;
    }
    if (real(log_file, all, parts + 1) != (ssize_t)(sizeof header + header.length)) die(LOG);
    errno = before;
}

static void note_paths(enum kind kind, const char *first, const char *second) {
    struct iovec parts[2] = {
        {(void *)first, strlen(first) + 1},
        {(void *)second, second ? strlen(second) + 1 : 0},
    };
    note(kind, 0, 0, parts, second ? 2 : 1);
}

static int is_below(const char *path) {
    return log_file >= 0 && strncmp(path, folder, folder_length) == 0
        && (path[folder_length] == '/' || path[folder_length] == 0);
}

static int is_followed(int fd) {
    return log_file >= 0 && fd >= 0 && fd < DESCRIPTORS && followed[fd];
}

static void follow(int fd) {
    if (fd >= DESCRIPTORS) die("descriptor too large to be followed");
    followed[fd] = 1;
}

/* The path behind a descriptor. */
static void path_of(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
}

/* An absolute path of what a call was given. */
static void absolute(int directory, const char *path, char result[PATH_MAX]) {
    char base[PATH_MAX] = "";
    if (path[0] == '/') {
        snprintf(result, PATH_MAX, "%s", path);
        return;
    }
    if (directory != AT_FDCWD) path_of(directory, base);
    else if (!getcwd(base, sizeof base)) die("getcwd");
    if ((size_t)snprintf(result, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) die("path too long");
}

static int opened(int fd, int flags) {
    if (fd < 0 || log_file < 0) return fd;
    int before = errno;
    char path[PATH_MAX];
    path_of(fd, path);
    if (is_below(path)) {
        follow(fd);
        struct iovec part = {path, strlen(path) + 1};
        note(OPENED, fd, 0, &part, 1);
        if (flags & O_TRUNC) note(RESIZED, fd, 0, NULL, 0);
    }
    errno = before;
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *path, int flags, ...) { REAL(open); MODE(flags) return opened(real(path, flags, mode), flags); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE(flags) return opened(real(path, flags, mode), flags); }
int openat(int at, const char *path, int flags, ...) { REAL(openat); MODE(flags) return opened(real(at, path, flags, mode), flags); }
int openat64(int at, const char *path, int flags, ...) { REAL(openat64); MODE(flags) return opened(real(at, path, flags, mode), flags); }

int close(int fd) {
    REAL(close);
    if (is_followed(fd)) {
        followed[fd] = 0;
        note(CLOSED, fd, 0, NULL, 0);
    }
    return real(fd);
}

static int copied(int from, int to) {
    if (to >= 0 && is_followed(from)) {
        follow(to);
        note(COPIED, from, to, NULL, 0);
    }
    return to;
}

/* The descriptor that a copy replaces, if any, is closed by it. */
static void replaced(int from, int to) {
    if (from != to && is_followed(to)) {
        followed[to] = 0;
        note(CLOSED, to, 0, NULL, 0);
    }
}

int dup(int from) { REAL(dup); return copied(from, real(from)); }
int dup2(int from, int to) { REAL(dup2); replaced(from, to); return copied(from, real(from, to)); }
int dup3(int from, int to, int flags) { REAL(dup3); replaced(from, to); return copied(from, real(from, to, flags)); }

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        REAL(name); \
        va_list arguments; \
        va_start(arguments, command); \
        void *argument = va_arg(arguments, void *); \
        va_end(arguments); \
        int result = real(fd, command, argument); \
        return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, result) : result; \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

static void wrote(int fd, const struct iovec *parts, int count, int64_t offset) {
    if (fd == STDOUT_FILENO && log_file >= 0) note(SAID, 0, 0, parts, count);
    if (!is_followed(fd)) return;
    if (offset < 0) {
        int append = fcntl(fd, F_GETFL) & O_APPEND;
        struct stat status;
        if (fstat(fd, &status)) die("fstat");
        offset = append ? status.st_size : lseek(fd, 0, SEEK_CUR);
    }
    note(WROTE, fd, offset, parts, count);
}

#define PART(data, size) &(struct iovec){(void *)(data), (size)}, 1

ssize_t write(int fd, const void *data, size_t size) { REAL(write); wrote(fd, PART(data, size), -1); return real(fd, data, size); }
ssize_t writev(int fd, const struct iovec *parts, int count) { REAL(writev); wrote(fd, parts, count, -1); return real(fd, parts, count); }

#define WRITES(suffix, offset_type) \
    ssize_t pwrite##suffix(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(pwrite##suffix); \
        wrote(fd, PART(data, size), offset); \
        return real(fd, data, size, offset); \
    } \
    ssize_t pwritev##suffix(int fd, const struct iovec *parts, int count, offset_type offset) { \
        REAL(pwritev##suffix); \
        wrote(fd, parts, count, offset); \
        return real(fd, parts, count, offset); \
    }
WRITES(, off_t)
WRITES(64, off64_t)

/* A file is made longer, never shorter, by allocating. Holes punched in it are not modelled. */
static void allocated(int fd, int mode, int64_t end) {
    struct stat status;
    if (!is_followed(fd)) return;
    if (mode & ~FALLOC_FL_KEEP_SIZE) die("fallocate with this mode is not modelled");
    if (fstat(fd, &status)) die("fstat");
    if (!(mode & FALLOC_FL_KEEP_SIZE) && end > status.st_size) note(RESIZED, fd, end, NULL, 0);
}

#define SIZES(suffix, offset_type) \
    int ftruncate##suffix(int fd, offset_type size) { \
        REAL(ftruncate##suffix); \
        if (is_followed(fd)) note(RESIZED, fd, size, NULL, 0); \
        return real(fd, size); \
    } \
    int fallocate##suffix(int fd, int mode, offset_type offset, offset_type size) { \
        REAL(fallocate##suffix); \
        allocated(fd, mode, offset + size); \
        return real(fd, mode, offset, size); \
    } \
    int posix_fallocate##suffix(int fd, offset_type offset, offset_type size) { \
        REAL(posix_fallocate##suffix); \
        allocated(fd, 0, offset + size); \
        return real(fd, offset, size); \
    }
SIZES(, off_t)
SIZES(64, off64_t)

#define SYNC(name) \
    int name(int fd) { \
        REAL(name); \
        if (is_followed(fd)) note(SYNCED, fd, 0, NULL, 0); \
        return real(fd); \
    }
SYNC(fsync)
SYNC(fdatasync)

static void named(enum kind kind, int at, const char *from, int to_at, const char *to) {
    char first[PATH_MAX], second[PATH_MAX];
    if (log_file < 0) return;
    absolute(at, from, first);
    if (to) absolute(to_at, to, second);
    if (is_below(first) || (to && is_below(second))) note_paths(kind, first, to ? second : NULL);
}

/* A call that fails changes no name, so it is tried before it is noted; a kill in between loses only the note,
 * and names that were never flushed may be lost. */
#define NAMED(call, ...) \
    int result = call; \
    if (result == 0) { \
        int before = errno; \
        named(__VA_ARGS__); \
        errno = before; \
    } \
    return result

int rename(const char *from, const char *to) { REAL(rename); NAMED(real(from, to), RENAMED, AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int at, const char *from, int to_at, const char *to) { REAL(renameat); NAMED(real(at, from, to_at, to), RENAMED, at, from, to_at, to); }
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags) { REAL(renameat2); NAMED(real(at, from, to_at, to, flags), RENAMED, at, from, to_at, to); }
int link(const char *from, const char *to) { REAL(link); NAMED(real(from, to), LINKED, AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int at, const char *from, int to_at, const char *to, int flags) { REAL(linkat); NAMED(real(at, from, to_at, to, flags), LINKED, at, from, to_at, to); }
int unlink(const char *path) { REAL(unlink); NAMED(real(path), UNLINKED, AT_FDCWD, path, 0, NULL); }
int unlinkat(int at, const char *path, int flags) { REAL(unlinkat); NAMED(real(at, path, flags), UNLINKED, at, path, 0, NULL); }
