/* damage_file.c - runs a program on damaged copies of a file:
 *
 *     damage_file FILE CASES HEAD KIND FOLDER -- PROGRAM ARGUMENT...
 *
 * An argument {} stands for the damaged copy, {out} for a file that the program writes. CASES copies are
 * cut, and CASES have one bit flipped, or a field of 4 or 8 bytes overwritten with an extreme number, in
 * the first HEAD bytes. The program must end by itself within a minute, with status 1 and a message where
 * it fails, and then leave no file in FOLDER. KIND is `always` if it must notice any such damage, or `cut`
 * if it need notice cuts alone (a changed letter of a text is a text). */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define SECONDS_PER_CASE 60
#define MAX_ARGUMENTS 32

static struct {
    uint8_t *bytes;
    size_t size;
    const char *folder;
    char damaged[512], out[512], messages[512];
    char *command[MAX_ARGUMENTS + 1];
    unsigned failed, succeeded;
} state;

static uint64_t random_state = 19700101;
static uint64_t random_below(uint64_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 24) % limit;
}

static bool write_whole(const char *path, const uint8_t *bytes, size_t size)
{
    int f = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool done = f >= 0 && write(f, bytes, size) == (ssize_t)size;
    if (f >= 0)
        close(f);
    return done;
}

static int run(void)
{
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR),
            messages = open(state.messages, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(null, 0);
        dup2(null, 1);
        dup2(messages, 2);
        alarm(SECONDS_PER_CASE); /* survives execv */
        execv(state.command[0], state.command);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static size_t message_bytes(void)
{
    struct stat st;
    return stat(state.messages, &st) == 0 ? (size_t)st.st_size : 0;
}

/* Files in the folder that are not ours. */
static unsigned left_behind(void)
{
    unsigned count = 0;
    DIR *folder = opendir(state.folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.' && strcmp(entry->d_name, "damaged") != 0 &&
                 strcmp(entry->d_name, "messages") != 0;
    if (folder)
        closedir(folder);
    return count;
}

static void show_messages(void)
{
    char text[2000];
    FILE *f = fopen(state.messages, "r");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    fwrite(text, 1, n, stderr);
    if (f)
        fclose(f);
}

static void try(size_t size, bool must_fail, const char *what, uint64_t where)
{
    CHECK(write_whole(state.damaged, state.bytes, size));
    int status = run();
    bool right = status == 1 || (status == 0 && !must_fail);
    CHECK_MSG(right, "%s %llu: exit status %d", what, (unsigned long long)where, status);
    if (!right)
        show_messages();
    if (status == 1) {
        state.failed++;
        CHECK_MSG(message_bytes() > 0, "%s %llu: no message", what, (unsigned long long)where);
        CHECK_MSG(left_behind() == 0, "%s %llu: a file is left behind", what, (unsigned long long)where);
    }
    state.succeeded += status == 0;
    unlink(state.out);
}

static void cut(unsigned cases, size_t head)
{
    for (unsigned n = 0; n < cases; n++) {
        size_t size = (size_t)random_below(n % 2 ? state.size : head);
        try(size, true, "cut to bytes", size);
    }
    try(0, true, "cut to bytes", 0);
    try(state.size - 1, true, "cut to bytes", state.size - 1);
}

static void change(unsigned cases, size_t head, bool must_fail)
{
    static const uint64_t extremes[] = {0,          1,         0x7fffffff, 0x80000000,
                                        0xffffffff, INT64_MAX, UINT64_MAX, 1ull << 40};
    for (unsigned n = 0; n < cases; n++) {
        size_t at = (size_t)random_below(n % 2 ? head : head < 256 ? head : 256), width = 1;
        uint8_t saved[8];
        if (n % 3 == 0)
            width = 4u << random_below(2);
        if (at + width > state.size)
            continue;
        memcpy(saved, state.bytes + at, width);
        if (width == 1)
            state.bytes[at] = (uint8_t)(state.bytes[at] ^ 1u << random_below(8));
        else
            memcpy(state.bytes + at, &extremes[random_below(8)], width);
        if (memcmp(saved, state.bytes + at, width) != 0)
            try(state.size, must_fail, "changed byte", at);
        memcpy(state.bytes + at, saved, width);
    }
}

static bool read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    fseek(f, 0, SEEK_END);
    state.size = (size_t)ftell(f);
    rewind(f);
    state.bytes = malloc(state.size);
    bool done = state.bytes && fread(state.bytes, 1, state.size, f) == state.size;
    fclose(f);
    return done && state.size > 16;
}

int main(int argc, char **argv)
{
    if (argc < 8 || argc - 7 > MAX_ARGUMENTS || strcmp(argv[6], "--") != 0) {
        fprintf(stderr, "usage: damage_file FILE CASES HEAD always|cut FOLDER -- PROGRAM ARGUMENT...\n");
        return 2;
    }
    if (!read_file(argv[1]))
        CHECK_SKIP("cannot read %s", argv[1]);
    unsigned cases = (unsigned)atoi(argv[2]);
    size_t head = (size_t)atoll(argv[3]);
    if (head == 0 || head > state.size)
        head = state.size;
    state.folder = argv[5];
    mkdir(state.folder, 0777);
    snprintf(state.damaged, sizeof state.damaged, "%s/damaged", state.folder);
    snprintf(state.messages, sizeof state.messages, "%s/messages", state.folder);
    snprintf(state.out, sizeof state.out, "%s/out", state.folder);
    for (int i = 7; i < argc; i++)
        state.command[i - 7] = strcmp(argv[i], "{}") == 0      ? state.damaged
                               : strcmp(argv[i], "{out}") == 0 ? state.out
                                                               : argv[i];
    try(state.size, false, "not damaged at all", 0);
    CHECK_MSG(state.succeeded == 1, "the undamaged file fails");
    cut(cases, head);
    change(cases, head, strcmp(argv[4], "always") == 0);
    printf("%u runs failed as they should, %u succeeded\n", state.failed, state.succeeded);
    unlink(state.damaged);
    unlink(state.messages);
    rmdir(state.folder);
    free(state.bytes);
    return check_end();
}
