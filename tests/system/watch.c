/* watch.c - runs a program under ptrace and reports what it asks of the kernel, to test the memory
 * contract from outside:
 *
 *     watch REPORT [--image FILE] [--preload FILE] [--stdout FILE] [--stderr FILE] [--interrupt N]
 *           -- PROGRAM ARGUMENT...
 *
 * REPORT gets lines "name value": exit (128 + n for signal n), ready (1 once a write to stderr had the
 * word), forbidden (brk, mmap and mremap calls of any thread after that) and their names, mallocs (the
 * same for malloc and its kin, where count_malloc.so is preloaded), image_read (bytes of FILE that were
 * read or touched until ready), peak_rss (bytes). With --interrupt the program gets SIGINT at its Nth
 * write to standard output after "ready". The exit status is 0 if the program could be run at all:
 * judging is the caller's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "count_malloc.h"

#define MAX_THREADS 256

/* glibc's struct __ptrace_syscall_info, which musl and older headers lack. */
typedef struct syscall_info {
    uint8_t op; /* 1: entry, 2: exit */
    uint8_t pad[3];
    uint32_t arch;
    uint64_t instruction_pointer, stack_pointer;
    union {
        struct {
            uint64_t number, args[6];
        } entry;
        struct {
            int64_t result;
            uint8_t is_error;
        } exit;
    };
} syscall_info;
#define GET_SYSCALL_INFO 0x420e
_Static_assert(sizeof(syscall_info) >= 80, "as large as the kernel's");

typedef struct thread {
    pid_t id;
    syscall_info call; /* that it is in */
} thread;

static struct {
    pid_t main;
    const char *image;
    thread threads[MAX_THREADS];
    size_t thread_count;
    bool ready;
    unsigned long interrupt_at, writes; /* to standard output, after ready */
    unsigned forbidden;
    char forbidden_names[256];
    uint64_t malloc_flag; /* address in the program, 0 if it has none */
    unsigned mallocs;
    uint64_t image_read, image_mapped;
} state;

static void die(const char *what)
{
    fprintf(stderr, "watch: %s: %s\n", what, strerror(errno));
    exit(2);
}

static thread *thread_of(pid_t id)
{
    for (size_t i = 0; i < state.thread_count; i++)
        if (state.threads[i].id == id)
            return &state.threads[i];
    if (state.thread_count == MAX_THREADS) {
        fprintf(stderr, "watch: more than %d threads\n", MAX_THREADS);
        exit(2);
    }
    thread *t = &state.threads[state.thread_count++];
    *t = (thread){.id = id};
    return t;
}

static size_t read_memory(uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size};
    struct iovec remote = {(void *)(uintptr_t)address, size};
    ssize_t n = process_vm_readv(state.main, &local, 1, &remote, 1, 0);
    return n < 0 ? 0 : (size_t)n;
}

/* Bytes of the image that lie in the program's page tables now. */
static uint64_t image_resident(void)
{
    char path[64], line[PATH_MAX + 128];
    snprintf(path, sizeof path, "/proc/%d/smaps", (int)state.main);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    uint64_t total = 0, kib;
    bool inside = false;
    while (fgets(line, sizeof line, f)) {
        uint64_t low, high;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &low, &high) == 2)
            inside = strstr(line, state.image) != NULL;
        else if (inside && sscanf(line, "Rss: %" SCNu64, &kib) == 1)
            total += kib * 1024;
    }
    fclose(f);
    return total;
}

static bool is_image(uint64_t descriptor)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/%d/fd/%" PRIu64, (int)state.main, descriptor);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = 0;
    return strcmp(path, state.image) == 0;
}

/* Whether this write has the word "ready". */
static bool says_ready(const uint64_t *args)
{
    char text[4096];
    size_t size = args[2] < sizeof text ? (size_t)args[2] : sizeof text;
    return memmem(text, read_memory(args[1], text, size), "ready", 5) != NULL;
}

static const char *forbidden_name(uint64_t number)
{
    switch (number) {
    case SYS_brk:
        return "brk";
    case SYS_mmap:
        return "mmap";
    case SYS_mremap:
        return "mremap";
    default:
        return NULL;
    }
}

static void measure_image(void)
{
    uint64_t now = state.image ? image_resident() : 0;
    state.image_mapped = now > state.image_mapped ? now : state.image_mapped;
}

static void call_begins(const syscall_info *call)
{
    uint64_t number = call->entry.number;
    const uint64_t *args = call->entry.args;
    if (number == SYS_prctl && (uint32_t)args[0] == COUNT_MALLOC_FLAG)
        state.malloc_flag = args[1];
    if (number == SYS_prctl && (uint32_t)args[0] == COUNT_MALLOC_CALLED)
        state.mallocs++;
    if (!state.ready && (number == SYS_munmap || number == SYS_exit_group))
        measure_image();
    const char *name = state.ready ? forbidden_name(number) : NULL;
    if (name) {
        size_t used = strlen(state.forbidden_names);
        snprintf(state.forbidden_names + used, sizeof state.forbidden_names - used, " %s", name);
        state.forbidden++;
    }
}

static void call_ends(const syscall_info *call, int64_t result)
{
    uint64_t number = call->entry.number;
    const uint64_t *args = call->entry.args;
    if (state.ready) {
        if (number == SYS_write && args[0] == 1 && ++state.writes == state.interrupt_at)
            kill(state.main, SIGINT);
        return;
    }
    if (state.image && result > 0 && (number == SYS_read || number == SYS_pread64) && is_image(args[0]))
        state.image_read += (uint64_t)result;
    if (number == SYS_write && args[0] == 2 && result > 0 && says_ready(args)) {
        measure_image();
        state.ready = true;
        if (state.malloc_flag && ptrace(PTRACE_POKEDATA, state.main, (void *)(uintptr_t)state.malloc_flag, 1L))
            die("PTRACE_POKEDATA");
    }
}

static void call_stop(pid_t id)
{
    syscall_info info;
    memset(&info, 0, sizeof info);
    if (ptrace(GET_SYSCALL_INFO, id, sizeof info, &info) < 0) {
        if (errno == ESRCH)
            return; /* killed meanwhile */
        die("PTRACE_GET_SYSCALL_INFO (needs Linux 5.3)");
    }
    thread *t = thread_of(id);
    if (info.op == 1) {
        t->call = info;
        call_begins(&t->call);
    } else if (info.op == 2) {
        call_ends(&t->call, info.exit.result);
    }
}

static void redirect(const char *path, int to)
{
    int f = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
    if (path && (f < 0 || dup2(f, to) < 0))
        die(path);
    if (path)
        close(f);
}

static void start(char **command, const char *preload, const char *out, const char *err)
{
    state.main = fork();
    if (state.main < 0)
        die("fork");
    if (state.main == 0) {
        redirect(out, 1);
        redirect(err, 2);
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(126);
        raise(SIGSTOP);
        execv(command[0], command);
        _exit(127);
    }
    int status;
    if (waitpid(state.main, &status, 0) != state.main || !WIFSTOPPED(status)) {
        fprintf(stderr, "skipped: ptrace is not permitted here\n");
        exit(77);
    }
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, state.main, NULL, options) || ptrace(PTRACE_SYSCALL, state.main, NULL, 0L))
        die("PTRACE_SETOPTIONS");
}

/* Follows all threads until the main one has ended; returns its wait status. */
static int follow(struct rusage *usage)
{
    for (;;) {
        int status;
        pid_t id = wait4(-1, &status, __WALL, usage);
        if (id < 0)
            die("wait4");
        if (!WIFSTOPPED(status)) {
            if (id == state.main)
                return status;
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80))
            call_stop(id);
        bool ours = signal == (SIGTRAP | 0x80) || signal == SIGTRAP || signal == SIGSTOP;
        if (ptrace(PTRACE_SYSCALL, id, NULL, ours ? 0L : (long)signal) && errno != ESRCH)
            die("PTRACE_SYSCALL");
    }
}

int main(int argc, char **argv)
{
    static char image[PATH_MAX];
    const char *out = NULL, *err = NULL, *preload = NULL;
    int i = 2;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (strcmp(argv[i], "--image") == 0 && realpath(argv[i + 1], image))
            state.image = image;
        else if (strcmp(argv[i], "--preload") == 0)
            preload = argv[i + 1];
        else if (strcmp(argv[i], "--stdout") == 0)
            out = argv[i + 1];
        else if (strcmp(argv[i], "--stderr") == 0)
            err = argv[i + 1];
        else if (strcmp(argv[i], "--interrupt") == 0)
            state.interrupt_at = strtoul(argv[i + 1], NULL, 10);
        else
            break;
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0) {
        fprintf(stderr, "usage: watch REPORT [--image FILE] [--preload FILE] [--stdout FILE] [--stderr FILE] "
                        "[--interrupt N] -- PROGRAM ...\n");
        return 2;
    }
    start(argv + i + 1, preload, out, err);
    struct rusage usage;
    int status = follow(&usage);
    FILE *report = fopen(argv[1], "w");
    if (!report)
        die(argv[1]);
    fprintf(report, "exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fprintf(report, "ready %d\n", state.ready);
    fprintf(report, "forbidden %u%s\n", state.forbidden, state.forbidden_names);
    fprintf(report, "mallocs %u\n", state.mallocs);
    fprintf(report, "image_read %" PRIu64 "\n", state.image_read + state.image_mapped);
    fprintf(report, "peak_rss %ld\n", usage.ru_maxrss * 1024L);
    return fclose(report) ? 2 : 0;
}
