/* Images appear complete or not at all. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "quant/write/output_file.h"
#include "quant/write/texts.h"
#include "unit/quant_files.h"

static bool content_is(const char *name, const char *expected)
{
    size_t size = 0;
    uint8_t *bytes = read_whole(in_folder(name), &size);
    bool same = bytes && size == strlen(expected) && memcmp(bytes, expected, size) == 0;
    free(bytes);
    return same;
}

static void commit_and_abort(void)
{
    output_file f;
    mk_error err = {""};
    char back[5] = "";
    struct stat st;
    CHECK_MSG(output_file_create(&f, in_folder("a"), NULL, 0, &err) == MK_OK, "%s", err.text);
    CHECK(output_file_reserve(&f, 5, &err) == MK_OK);
    CHECK(output_file_write(&f, 1, "hijk", 4, &err) == MK_OK);
    CHECK(output_file_write(&f, 0, "a", 1, &err) == MK_OK);
    CHECK(output_file_read(&f, 1, back, 4, &err) == MK_OK && memcmp(back, "hijk", 4) == 0);
    CHECK(output_file_read(&f, 3, back, 4, &err) == MK_ERR_IO && strstr(err.text, "shorter"));
    CHECK(access(in_folder("a"), F_OK) != 0 && files_count() == 1);
    CHECK_MSG(output_file_commit(&f, &err) == MK_OK, "%s", err.text);
    CHECK(content_is("a", "ahijk") && files_count() == 1);
    CHECK(stat(in_folder("a"), &st) == 0 && (st.st_mode & 0777) == 0640); /* 0666 without the umask */

    CHECK(output_file_create(&f, in_folder("a"), NULL, 0, &err) == MK_OK);
    CHECK(output_file_write(&f, 0, "new", 3, &err) == MK_OK && files_count() == 2);
    output_file_abort(&f);
    CHECK(content_is("a", "ahijk") && files_count() == 1);

    CHECK(output_file_create(&f, in_folder("a"), NULL, 0, &err) == MK_OK);
    CHECK(output_file_write(&f, 0, "new", 3, &err) == MK_OK);
    CHECK(output_file_commit(&f, &err) == MK_OK && content_is("a", "new") && files_count() == 1);
}

static void refused(const char *path, const source_map *const sources[], size_t count, const char *expected)
{
    output_file f;
    mk_error err = {""};
    unsigned files = files_count();
    CHECK(output_file_create(&f, path, sources, count, &err) != MK_OK);
    CHECK_MSG(strstr(err.text, expected) != NULL, "\"%s\", expected \"%s\"", err.text, expected);
    CHECK(files_count() == files);
}

static void targets(void)
{
    source_map map, none = {0};
    mk_error err;
    const source_map *const sources[] = {&none, &map};
    output_file f;
    CHECK(source_map_open(&map, in_folder("a"), &err) == MK_OK);
    refused(in_folder("a"), sources, 2, "input of this run");
    CHECK(symlink(in_folder("a"), in_folder("link")) == 0);
    refused(in_folder("link"), sources, 2, "input of this run");
    CHECK(link(in_folder("a"), in_folder("hard")) == 0);
    refused(in_folder("hard"), sources, 2, "input of this run");
    unlink(in_folder("hard"));
    source_map_close(&map);
    refused(test_folder, NULL, 0, "not a regular file");
    refused("/dev/null", NULL, 0, "not a regular file");
    refused(in_folder("no/such/folder"), NULL, 0, "No such file");
    CHECK(output_file_create(&f, in_folder("link"), NULL, 0, &err) == MK_OK); /* follows the link */
    CHECK(output_file_write(&f, 0, "by link", 7, &err) == MK_OK && output_file_commit(&f, &err) == MK_OK);
    struct stat st;
    CHECK(content_is("a", "by link") && lstat(in_folder("link"), &st) == 0 && S_ISLNK(st.st_mode));
    unlink(in_folder("link"));
}

/* A limit on file sizes stands in for a full disk. */
static void full_disk(void)
{
    output_file f;
    mk_error err = {""};
    struct rlimit old, limit;
    tiny_gguf(in_folder("tiny.gguf"));
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    limit = old;
    limit.rlim_cur = 100000;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(output_file_create(&f, in_folder("b"), NULL, 0, &err) == MK_OK);
    CHECK(output_file_reserve(&f, 200000, &err) == MK_ERR_IO); /* and no SIGXFSZ */
    CHECK_MSG(strstr(err.text, "b: cannot write: ") && strstr(err.text, "ulimit -f"), "%s", err.text);
    output_file_abort(&f);
    unsigned files = files_count();
    CHECK(quantize_files(&(quantize_case){"tiny.gguf", NULL, "b", MKN_Q8, MKN_Q8, MKN_Q8, 2}, &err) ==
          MK_ERR_IO);
    CHECK_MSG(strstr(err.text, "b: cannot write: ") != NULL, "%s", err.text);
    CHECK(files_count() == files);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    unlink(in_folder("tiny.gguf"));
}

/* The signal ends the program as it would have without us, and the temporary file is gone. */
static void interrupted(int number)
{
    unsigned files = files_count();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        output_file f;
        mk_error err;
        if (output_file_create(&f, in_folder("c"), NULL, 0, &err) != MK_OK || files_count() != files + 1)
            _exit(1);
        raise(number);
        _exit(2);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == number, "signal %d: status %x", number,
              (unsigned)status);
    CHECK(files_count() == files);
}

/* A source that shrinks while it is mapped. */
static void shrinking_source(void)
{
    enum { SIZE = 1 << 16 };
    static const uint8_t zeros[SIZE];
    write_whole(in_folder("source"), zeros, SIZE);
    unsigned files = files_count();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        output_file f;
        source_map map;
        mk_error err;
        (void)!freopen("/dev/null", "w", stderr);
        if (source_map_open(&map, in_folder("source"), &err) ||
            output_file_create(&f, in_folder("c"), NULL, 0, &err) || truncate(in_folder("source"), 1) != 0)
            _exit(3);
        volatile uint8_t byte = map.data[SIZE - 1];
        (void)byte;
        _exit(2);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", (unsigned)status);
    CHECK(files_count() == files);
    unlink(in_folder("source"));
}

static void text_sections(void)
{
    texts t;
    texts_begin(&t, 16);
    CHECK(texts_add(&t, (source_string){"", 0}) == 0);
    uint32_t a = texts_add(&t, (source_string){"caf\xc3\xa9", 5});
    uint32_t b = texts_add(&t, (source_string){"a\xff\0\xe2\x82|\xed\xa0\x80", 9});
    CHECK(a == 16 && b == 22 && t.data && t.size == 32);
    CHECK(t.data && strcmp((char *)t.data + a, "caf\xc3\xa9") == 0);
    CHECK(t.data && strcmp((char *)t.data + b, "a????|???") == 0);
    texts_free(&t);
}

int main(void)
{
    files_begin();
    umask(027);
    commit_and_abort();
    targets();
    full_disk();
    interrupted(SIGINT);
    interrupted(SIGTERM);
    interrupted(SIGHUP);
    interrupted(SIGXCPU);
    interrupted(SIGUSR1);
    shrinking_source();
    text_sections();
    files_end();
    return check_end();
}
