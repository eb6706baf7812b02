#define _GNU_SOURCE /* fallocate, realpath, sigaction */
#include "quant/write/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quant/read/fail.h"

/* ---- Removal on a signal ---------------------------------------------------------------------- */

static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
                              SIGXCPU, SIGALRM, SIGUSR1, SIGUSR2, SIGBUS};
static const char *volatile pending_path; /* of the temporary file, for the handler */

/* Only calls that are safe in a handler. SIGBUS: a mapped source shrank, or its disk failed. */
static void on_signal(int number)
{
    const char *path = pending_path;
    if (path)
        unlink(path);
    if (number == SIGBUS) {
        static const char text[] =
            "makarna-quant: the source changed or could not be read while it was in use\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(1);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(const char *path)
{
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    pending_path = path;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup stays in force */
            sigaction(signals[i], &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit (ulimit -f) becomes an error of the write */
}

static void unwatch_signals(void)
{
    pending_path = NULL;
}

/* ---- Creation --------------------------------------------------------------------------------- */

static mk_status check_target(output_file *f, const source_map *const sources[], size_t count, mk_error *err)
{
    struct stat st;
    if (stat(f->name, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return MK_OK; /* the temporary file tells whether the folder is there */
        return quant_fail(err, MK_ERR_IO, "%s: cannot stat: %s", f->name, strerror(errno));
    }
    if (!S_ISREG(st.st_mode))
        return quant_fail(err, MK_ERR_IO, "%s: exists and is not a regular file; give another name with -o",
                          f->name);
    for (size_t i = 0; i < count; i++)
        if (sources[i]->data && sources[i]->device == (uint64_t)st.st_dev &&
            sources[i]->inode == (uint64_t)st.st_ino)
            return quant_fail(err, MK_ERR_ARGUMENT, "%s: is an input of this run; give another name with -o",
                              f->name);
    f->path = realpath(f->name, NULL);
    if (!f->path)
        return quant_fail(err, MK_ERR_IO, "%s: cannot resolve: %s", f->name, strerror(errno));
    return MK_OK;
}

static mk_status create_temporary(output_file *f, mk_error *err)
{
    static const char suffix[] = ".partial-XXXXXX";
    size_t length = strlen(f->path);
    f->temporary = malloc(length + sizeof suffix);
    if (!f->temporary)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", f->name);
    memcpy(f->temporary, f->path, length);
    memcpy(f->temporary + length, suffix, sizeof suffix);
    watch_signals(f->temporary); /* before there is anything to remove, so that nothing can be left */
    f->fd = mkostemp(f->temporary, O_CLOEXEC);
    if (f->fd < 0) {
        int error = errno;
        unwatch_signals();
        free(f->temporary);
        f->temporary = NULL;
        return quant_fail(err, MK_ERR_IO,
                          "%s: cannot create a file in its folder: %s; name another folder with -o", f->name,
                          strerror(error));
    }
    mode_t mask = umask(0);
    umask(mask);
    (void)fchmod(f->fd, 0666 & ~mask);
    return MK_OK;
}

static void release(output_file *f)
{
    unwatch_signals();
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f->temporary);
    *f = (output_file){.fd = -1};
}

mk_status output_file_create(output_file *f, const char *name, const source_map *const sources[], size_t count,
                             mk_error *err)
{
    *f = (output_file){.name = name, .fd = -1};
    mk_status status = check_target(f, sources, count, err);
    if (!status && !f->path && !(f->path = strdup(name)))
        status = quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", name);
    if (!status)
        status = create_temporary(f, err);
    if (status)
        release(f);
    return status;
}

/* ---- Content ---------------------------------------------------------------------------------- */

static mk_status write_failed(const output_file *f, int error, mk_error *err)
{
    const char *hint = "";
    if (error == ENOSPC || error == EDQUOT)
        hint = "; free some space or write to another disk with -o";
    else if (error == EFBIG)
        hint = "; raise the limit on file sizes (ulimit -f) or write to another disk with -o";
    return quant_fail(err, MK_ERR_IO, "%s: cannot write: %s%s", f->name, strerror(error), hint);
}

mk_status output_file_reserve(output_file *f, uint64_t size, mk_error *err)
{
    if (size > INT64_MAX || (uint64_t)(off_t)size != size)
        return quant_fail(err, MK_ERR_UNSUPPORTED, "%s: %llu bytes are too many for a file on this machine",
                          f->name, (unsigned long long)size);
    if (ftruncate(f->fd, (off_t)size) != 0)
        return write_failed(f, errno, err);
    int failed;
    do
        failed = fallocate(f->fd, 0, 0, (off_t)size);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != EOPNOTSUPP && errno != ENOSYS &&
        errno != EINVAL) /* not every file system can */
        return write_failed(f, errno, err);
    return MK_OK;
}

mk_status output_file_write(const output_file *f, uint64_t offset, const void *data, size_t size, mk_error *err)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = pwrite(f->fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return write_failed(f, n < 0 ? errno : EIO, err);
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return MK_OK;
}

mk_status output_file_read(const output_file *f, uint64_t offset, void *data, size_t size, mk_error *err)
{
    char *p = data;
    while (size > 0) {
        ssize_t n = pread(f->fd, p, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return quant_fail(err, MK_ERR_IO, "%s: cannot read back what was written: %s", f->name,
                              n < 0 ? strerror(errno) : "the file has become shorter");
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return MK_OK;
}

/* ---- End -------------------------------------------------------------------------------------- */

static mk_status sync_folder(const output_file *f, mk_error *err)
{
    char *folder = strdup(f->path);
    if (!folder)
        return quant_fail(err, MK_ERR_MEMORY, "%s: out of memory", f->name);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (failed && failed != EINVAL) /* some file systems do not sync folders */
        return quant_fail(err, MK_ERR_IO, "%s: cannot sync its folder: %s", f->name, strerror(failed));
    return MK_OK;
}

mk_status output_file_commit(output_file *f, mk_error *err)
{
    mk_status status = MK_OK;
    int error = fsync(f->fd) != 0 ? errno : 0;
    if (close(f->fd) != 0 && !error)
        error = errno;
    f->fd = -1;
    if (error)
        status = write_failed(f, error, err);
    else if (rename(f->temporary, f->path) != 0)
        status =
            quant_fail(err, MK_ERR_IO, "%s: cannot rename the finished file: %s", f->name, strerror(errno));
    if (status) {
        output_file_abort(f);
        return status;
    }
    unwatch_signals();
    status = sync_folder(f, err);
    release(f);
    return status;
}

void output_file_abort(output_file *f)
{
    if (f->temporary)
        unlink(f->temporary);
    release(f);
}
