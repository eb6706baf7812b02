/* test_config.c - config files: every key, every mistake with the message that it gets, and random
 * damage. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "check.h"
#include "config/config.h"

static char folder[256];
static _Alignas(8) char memory[MK_CONFIG_MEMORY];
static mk_config config;
static mk_error err;

static const char *path_of(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    mk_format(path, sizeof *paths, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text, size_t size)
{
    FILE *file = fopen(path_of(name), "wb");
    CHECK(file && fwrite(text, 1, size, file) == size);
    if (file)
        fclose(file);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static mk_status load(const char *name)
{
    config = mk_config_default();
    err.text[0] = 0;
    return mk_config_load(&config, path_of(name), memory, sizeof memory, &err);
}

static mk_status load_text(const char *text)
{
    write_text("a.conf", text);
    return load("a.conf");
}

/* The text is refused, and the message is `expected` behind the file's folder. */
static void refused(const char *text, const char *expected)
{
    CHECK_MSG(load_text(text) != MK_OK, "accepted: %s", text);
    size_t length = strlen(folder) + 1;
    CHECK_MSG(strncmp(err.text, folder, length - 1) == 0, "%s", err.text);
    if (strlen(err.text) > length)
        CHECK_STR(err.text + length, expected);
}

static void accepted(const char *text)
{
    CHECK_MSG(load_text(text) == MK_OK, "%s", err.text);
}

static void check_defaults(void)
{
    accepted("");
    CHECK(!config.model && !config.system && !config.isa && !config.memory && !config.seed && !config.raw);
    CHECK(!config.threads && !config.context && !config.batch && config.n == MK_CONFIG_UNLIMITED);
    CHECK(config.load == MK_LOAD_MAP && config.kv == MK_KV_Q8 && config.sampling.temperature == 0);
}

static void check_every_key(void)
{
    accepted("# all\n"
             "model = /m/x.mkn\nload = lock\nisa = neon\nthreads = 64\nbatch=512\n  context\t=  4096  \r\n"
             "kv = q4\nmemory = 512M\nsystem = You are # one\nraw = on\nn = 0\nseed = 18446744073709551614\n"
             "temp = 0.7\ntop-k = 40\ntop-p = 0.95\nmin-p = .05\nrepeat-penalty = 1.1\nrepeat-last = 128");
    CHECK_STR(config.model, "/m/x.mkn");
    CHECK(config.load == MK_LOAD_LOCK && config.kv == MK_KV_Q4 && config.raw);
    CHECK_STR(config.isa, "neon");
    CHECK_STR(config.system, "You are");
    CHECK(config.threads == 64 && config.batch == 512 && config.context == 4096 && config.n == 0);
    CHECK(config.memory == 512u << 20 && config.seed == UINT64_MAX - 1);
    CHECK(config.sampling.temperature == 0.7f && config.sampling.top_k == 40 && config.sampling.top_p == 0.95f);
    CHECK(config.sampling.min_p == 0.05f && config.sampling.repeat_penalty == 1.1f);
    CHECK(config.sampling.repeat_last == 128);
    CHECK(config.origins[mk_config_find("model")].line == 2 && config.origins[mk_config_find("kv")].line == 8);
    for (size_t i = 0; i < MK_CONFIG_OPTIONS; i++)
        CHECK_MSG(config.origins[i].line, "%s is not tested", mk_config_options[i].name);

    accepted(
        "[engine]\nthreads = auto # all\nbatch = auto\n[memory] # here\ncontext = auto\nmemory = 3GiB\n"
        "[sampling]\nn = unlimited\nseed = random\n[model]\nmodel = x.mkn\n[chat]\nraw = false\n[model]\n");
    CHECK(config.threads == 0 && config.context == 0 && config.memory == (uint64_t)3 << 30);
    CHECK(config.n == MK_CONFIG_UNLIMITED && config.seed == MK_CONFIG_SEED_RANDOM && !config.raw);
    CHECK_STR(config.model, path_of("x.mkn"));
}

static void check_values(void)
{
    accepted("system = \"  a # b \\\"c\\\" \\\\ \\n\\t= \"  # comment");
    CHECK_STR(config.system, "  a # b \"c\" \\ \n\t= ");
    accepted("system =");
    CHECK_STR(config.system, "");
    accepted("system = \"\"");
    CHECK_STR(config.system, "");
    accepted("system = a=b#c");
    CHECK_STR(config.system, "a=b#c");
    accepted("system = say \"so\"");
    CHECK_STR(config.system, "say \"so\"");
    accepted("\xef\xbb\xbf# byte order mark\nn = 5\r\n\r\n");
    CHECK(config.n == 5);
    accepted("memory = 64k");
    CHECK(config.memory == 65536);
    accepted("memory = 17179869183G");
    CHECK(config.memory == UINT64_MAX - ((1u << 30) - 1));
}

static void check_refusals(void)
{
    refused("temperature = 1", "a.conf:1: temperature: no such key: makarna run --help lists them");
    refused("\n\n top_k = 3\n", "a.conf:3: top_k: no such key: makarna run --help lists them");
    refused("n = 5\nthreads", "a.conf:2: expected \"key = value\", found \"threads\"");
    refused("= 5", "a.conf:1: expected \"key = value\", found \"= 5\"");
    refused("threads = 0", "a.conf:1: threads: expected a whole number from 1 to 64, or auto, found \"0\"");
    refused("threads = 65", "a.conf:1: threads: expected a whole number from 1 to 64, or auto, found \"65\"");
    refused("threads = 4 8", "a.conf:1: threads: expected a whole number from 1 to 64, or auto, found \"4 8\"");
    refused("threads = -1", "a.conf:1: threads: expected a whole number from 1 to 64, or auto, found \"-1\"");
    refused("threads =", "a.conf:1: threads: expected a whole number from 1 to 64, or auto, found \"\"");
    refused("seed = 18446744073709551616",
            "a.conf:1: seed: expected a whole number from 0 to 18446744073709551614, or random, found "
            "\"18446744073709551616\"");
    refused("temp = 1e2", "a.conf:1: temp: expected a number from 0 to 100, found \"1e2\"");
    refused("temp = 100.001", "a.conf:1: temp: expected a number from 0 to 100, found \"100.001\"");
    refused("temp = .", "a.conf:1: temp: expected a number from 0 to 100, found \".\"");
    refused("temp = 0.1.2", "a.conf:1: temp: expected a number from 0 to 100, found \"0.1.2\"");
    refused("temp = nan", "a.conf:1: temp: expected a number from 0 to 100, found \"nan\"");
    refused("repeat-penalty = 0", "a.conf:1: repeat-penalty: expected a number from 0.01 to 100, found \"0\"");
    refused("kv = q2", "a.conf:1: kv: expected q8 or q4, found \"q2\"");
    refused("kv = q8|q4", "a.conf:1: kv: expected q8 or q4, found \"q8|q4\"");
    refused("kv = q", "a.conf:1: kv: expected q8 or q4, found \"q\"");
    refused("load = fast", "a.conf:1: load: expected map, preload or lock, found \"fast\"");
    refused("raw = 1", "a.conf:1: raw: expected true or false, found \"1\"");
    refused("memory = 0", "a.conf:1: memory: expected a number of bytes like 512M or 1G, found \"0\"");
    refused("memory = 1T", "a.conf:1: memory: expected a number of bytes like 512M or 1G, found \"1T\"");
    refused("memory = 17179869184G",
            "a.conf:1: memory: expected a number of bytes like 512M or 1G, found \"17179869184G\"");
    refused("model =", "a.conf:1: model: expected the path of a file, found \"\"");
    refused("n = 1\nkv = q8\nn = 2", "a.conf:3: n: given twice, first in line 1");
    refused("[engines]",
            "a.conf:1: expected [model], [engine], [memory], [chat] or [sampling], found [engines]");
    refused("[engine", "a.conf:1: expected [model], [engine], [memory], [chat] or [sampling], found [engine");
    refused("[", "a.conf:1: expected [model], [engine], [memory], [chat] or [sampling], found [");
    refused("[memory]\nthreads = 4",
            "a.conf:2: threads: this key belongs to section [engine], or before all sections");
    refused("system = \"open",
            "a.conf:1: system: expected a value in quotes, with \\n, \\t, \\\" or \\\\ inside, "
            "and no text after them");
    refused("system = \"a\" b",
            "a.conf:1: system: expected a value in quotes, with \\n, \\t, \\\" or \\\\ inside, "
            "and no text after them");
    refused("system = \"\\x\"",
            "a.conf:1: system: expected a value in quotes, with \\n, \\t, \\\" or \\\\ inside, "
            "and no text after them");
    refused("system = \"a\\",
            "a.conf:1: system: expected a value in quotes, with \\n, \\t, \\\" or \\\\ inside, "
            "and no text after them");
    refused("include =", "a.conf:1: include: expected the path of a file, found nothing");
}

static void check_shape(void)
{
    static char text[MK_CONFIG_MAX_LINE + 64];
    write_file("a.conf", "n = 1\nkv\0= q8\n", 14);
    CHECK(load("a.conf") == MK_ERR_ARGUMENT);
    CHECK_STR(err.text + strlen(folder), "/a.conf:2: a zero byte: this is no text file");

    memset(text, 'x', sizeof text);
    memcpy(text, "system = ", 9);
    write_file("a.conf", text, MK_CONFIG_MAX_LINE);
    CHECK(load("a.conf") == MK_OK && strlen(config.system) == MK_CONFIG_MAX_LINE - 9);
    write_file("a.conf", text, MK_CONFIG_MAX_LINE + 1);
    CHECK(load("a.conf") == MK_ERR_ARGUMENT);
    CHECK_STR(err.text + strlen(folder), "/a.conf:1: the line has 4097 bytes, expected at most 4096");

    /* A wrong text is shown in part. */
    memcpy(text, "threads = ", 10);
    text[4000] = 0;
    CHECK(load_text(text) == MK_ERR_ARGUMENT && strlen(err.text) < strlen(folder) + 160);

    /* Memory: exactly as much as the text and its terminator. */
    write_file("a.conf", "n = 7", 5);
    config = mk_config_default();
    CHECK(mk_config_load(&config, path_of("a.conf"), memory, 6, &err) == MK_OK && config.n == 7);
    for (size_t size = 0; size < 6; size++)
        CHECK(mk_config_load(&config, path_of("a.conf"), memory, size, &err) == MK_ERR_MEMORY);

    CHECK(load("none.conf") == MK_ERR_IO);
    char expected[512];
    mk_format(expected, sizeof expected, "cannot open the config file %s: no such file", path_of("none.conf"));
    CHECK_STR(err.text, expected);
    CHECK(mk_config_load(&config, folder, memory, sizeof memory, &err) == MK_ERR_IO);
}

static void check_includes(void)
{
    CHECK(mkdir(path_of("boards"), 0700) == 0);
    write_text("boards/b.conf", "threads = 2\nbatch = 16\nmodel = m.mkn\n[memory]\ncontext = 100\n");
    accepted("include = boards/b.conf\nthreads = 3");
    CHECK(config.threads == 3 && config.batch == 16 && config.context == 100);
    CHECK_STR(config.model, path_of("boards/m.mkn"));
    accepted(
        "threads = 3\n[sampling]\ninclude = boards/b.conf\ntemp = 1\n"); /* a section outlasts an include */
    CHECK(config.threads == 3 && config.batch == 16 && config.sampling.temperature == 1);

    write_text("c.conf", "batch = 32\ninclude = ./d.conf");
    write_text("d.conf", "batch = 64\ncontext = 7\nkv = q4");
    accepted("include = boards/b.conf\ninclude = c.conf\n");
    CHECK(config.batch == 32 && config.context == 100 && config.kv == MK_KV_Q4);
    accepted("include = c.conf\ninclude = boards/b.conf\n");
    CHECK(config.batch == 16 && config.context == 100 && config.threads == 2);
    accepted("include = d.conf\ninclude = d.conf\n");

    char missing[600];
    mk_format(missing, sizeof missing, "a.conf:1: include: cannot open %s: no such file",
              path_of("boards/no.conf"));
    refused("include = boards/no.conf", missing);
    write_text("d.conf", "batch = 64\n\ncontext = x");
    refused("include = c.conf",
            "./d.conf:3: context: expected a whole number from 1 to 16777216, or auto, found \"x\"");
    refused("context = 5\nbatch = 5\ninclude = c.conf", /* checked, though it would not count */
            "./d.conf:3: context: expected a whole number from 1 to 16777216, or auto, found \"x\"");
}

static void check_cycles(void)
{
    write_text("c.conf", "include = boards/../d.conf");
    write_text("d.conf", "\ninclude = c.conf");
    CHECK(load("c.conf") == MK_ERR_ARGUMENT);
    CHECK_MSG(strstr(err.text, "d.conf:2: include: ") && strstr(err.text, " includes itself"), "%s", err.text);
    write_text("c.conf", "include = c.conf");
    CHECK(load("c.conf") == MK_ERR_ARGUMENT && strstr(err.text, "c.conf:1: include: "));
    for (int i = 0; i < 10; i++) {
        char name[16], text[32];
        mk_format(name, sizeof name, "%d.conf", (int32_t)i);
        mk_format(text, sizeof text, "include = %d.conf", (int32_t)(i + 1));
        write_text(name, text);
    }
    write_text("10.conf", "n = 1");
    CHECK(load("2.conf") == MK_OK && config.n == 1);
    CHECK(load("1.conf") == MK_ERR_ARGUMENT && strstr(err.text, "9.conf:1: include: more than 8 files deep"));
}

/* Damaged files give a value or a message, under the sanitizers without a complaint. */
static void check_damage(void)
{
    static const char text[] =
        "# c\n[engine]\nthreads = 4 # x\n[memory]\nmemory = 64M\nkv = q4\n[chat]\n"
        "system = \"a \\\" \\n b\"\n[sampling]\nseed = 12\ntemp = 0.75\ninclude = boards/b.conf\n";
    uint32_t random = 1;
    for (int round = 0; round < 3000; round++) {
        char damaged[sizeof text];
        memcpy(damaged, text, sizeof text);
        size_t size = sizeof text - 1;
        for (int i = 0; i < 1 + round % 4; i++) {
            random = random * 1664525u + 1013904223u;
            damaged[(random >> 8) % size] = "\n=\"\\#[] \0\xff\x41"
                                            "9"[random >> 28 & 11];
        }
        if (round % 5 == 0)
            size = (random >> 10) % size;
        write_file("a.conf", damaged, size);
        CHECK(load("a.conf") == MK_OK || err.text[0]);
    }
}

static void remove_files(void)
{
    static const char *const names[] = {"a.conf", "c.conf", "d.conf", "boards/b.conf", "10.conf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_of(names[i]));
    for (int i = 0; i < 10; i++) {
        char name[16];
        mk_format(name, sizeof name, "%d.conf", (int32_t)i);
        unlink(path_of(name));
    }
    rmdir(path_of("boards"));
    rmdir(folder);
}

int main(void)
{
    const char *temporary = getenv("TMPDIR");
    mk_format(folder, sizeof folder, "%s/makarna-config-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        CHECK_SKIP("no folder for temporary files: %s", folder);
    check_defaults();
    check_every_key();
    check_values();
    check_refusals();
    check_shape();
    check_includes();
    check_cycles();
    check_damage();
    remove_files();
    return check_end();
}
