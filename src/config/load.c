/* Reading config files: the text is parsed where it was read to, and the options keep pointers into it. */
#define _POSIX_C_SOURCE 200809L
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static const struct {
    const char *name;
    unsigned section;
} sections[] = {
    {"model", MK_SECTION_MODEL}, {"engine", MK_SECTION_ENGINE},     {"memory", MK_SECTION_MEMORY},
    {"chat", MK_SECTION_CHAT},   {"sampling", MK_SECTION_SAMPLING},
};

/* What all files of one load share. */
typedef struct loader {
    mk_config *config;
    char *memory;
    size_t size, used;
    uint32_t readings;
    mk_error *err;
} loader;

/* A file being read; the chain of parents is what a cycle is found in. */
typedef struct source {
    const struct source *parent;
    const char *path;
    dev_t device;
    ino_t inode;
    uint32_t depth, reading, line;
    unsigned section; /* 0: before any */
} source;

static mk_status read_file(loader *l, const source *from, const char *path);

static mk_status fail_at(const loader *l, const source *s, const char *key, const char *format,
                         const char *found)
{
    mk_error reason;
    mk_format(reason.text, sizeof reason.text, format, found);
    return mk_fail(l->err, MK_ERR_ARGUMENT, *key ? "%s:%u: %s: %s" : "%s:%u: %s%s", s->path, s->line, key,
                   reason.text);
}

static char *take(loader *l, size_t bytes)
{
    if (bytes > l->size - l->used)
        return NULL;
    char *p = l->memory + l->used;
    l->used += bytes;
    return p;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_blanks(char *p)
{
    while (is_blank(*p))
        p++;
    return p;
}

static void trim_end(char *text)
{
    size_t length = strlen(text);
    while (length && is_blank(text[length - 1]))
        text[--length] = 0;
}

/* Cuts a comment: a '#' at the start or after a blank. */
static void cut_comment(char *text)
{
    for (char *p = text; *p; p++) {
        if (*p == '#' && (p == text || is_blank(p[-1]))) {
            *p = 0;
            return;
        }
    }
}

/* For messages: a wrong text is shown in part. */
static const char *shortened(char *text)
{
    if (strlen(text) > 60)
        memcpy(text + 57, "...", 4);
    return text;
}

/* Undoes the quotes of text[0] == '"' in place. NULL if they are not closed, an escape is unknown, or more
 * than a comment follows. */
static char *unquote(char *text)
{
    char *out = text, *in = text + 1;
    for (; *in != '"'; in++) {
        char c = *in;
        if (c == '\\') {
            c = *++in;
            if (c == 'n')
                c = '\n';
            else if (c == 't')
                c = '\t';
            else if (c != '"' && c != '\\')
                return NULL;
        }
        if (!c)
            return NULL;
        *out++ = c;
    }
    in = skip_blanks(in + 1);
    if (*in && *in != '#')
        return NULL;
    *out = 0;
    return text;
}

/* `path` as seen from the folder of the file that names it. */
static const char *resolve(loader *l, const source *s, const char *path)
{
    const char *slash = strrchr(s->path, '/');
    if (*path == '/' || !slash)
        return path;
    size_t folder = (size_t)(slash - s->path) + 1, length = strlen(path) + 1;
    char *joined = take(l, folder + length);
    if (joined) {
        memcpy(joined, s->path, folder);
        memcpy(joined + folder, path, length);
    }
    return joined;
}

static mk_status fail_no_memory(const loader *l, const source *s)
{
    return mk_fail(l->err, MK_ERR_MEMORY, "%s:%u: the config files and their names take more than %U bytes",
                   s->path, s->line, (uint64_t)l->size);
}

static mk_status parse_section(loader *l, source *s, char *line)
{
    cut_comment(line);
    trim_end(line);
    size_t length = strlen(line);
    if (line[length - 1] == ']') {
        line[length - 1] = 0;
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
            if (strcmp(line + 1, sections[i].name) == 0) {
                s->section = sections[i].section;
                return MK_OK;
            }
        }
        line[length - 1] = ']';
    }
    return fail_at(l, s, "", "expected [model], [engine], [memory], [chat] or [sampling], found %s",
                   shortened(line));
}

static const char *section_name(unsigned section)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (sections[i].section == section)
            return sections[i].name;
    return "";
}

/* Whether a value read now takes effect, given where the present one came from. */
static bool wins(const mk_config_origin *present, const source *s)
{
    return present->line == 0 || present->depth >= s->depth;
}

static mk_status apply(loader *l, const source *s, const char *key, char *value)
{
    int index = mk_config_find(key);
    if (index < 0)
        return fail_at(l, s, key, "no such key: %s lists them", "makarna run --help");
    const mk_option *option = &mk_config_options[index];
    mk_config_origin *origin = &l->config->origins[index];
    if (s->section && s->section != option->section)
        return fail_at(l, s, key, "this key belongs to section [%s], or before all sections",
                       section_name(option->section));
    if (origin->line && origin->reading == s->reading)
        return mk_fail(l->err, MK_ERR_ARGUMENT, "%s:%u: %s: given twice, first in line %u", s->path, s->line,
                       key, origin->line);

    bool effective = wins(origin, s);
    const char *resolved = value;
    if (option->kind == MK_OPTION_PATH && *value && !(resolved = resolve(l, s, value)))
        return fail_no_memory(l, s);
    if (!mk_option_set(option, resolved, effective ? l->config : NULL)) {
        char expected[128];
        mk_option_expected(option, expected, sizeof expected);
        return mk_fail(l->err, MK_ERR_ARGUMENT, "%s:%u: %s: expected %s, found \"%s\"", s->path, s->line, key,
                       expected, shortened(value));
    }
    if (effective)
        *origin = (mk_config_origin){s->path, s->line, s->depth, s->reading};
    return MK_OK;
}

static mk_status include(loader *l, const source *s, const char *value)
{
    if (!*value)
        return fail_at(l, s, "include", "expected the path of a file, found nothing%s", "");
    if (s->depth + 1 > MK_CONFIG_MAX_DEPTH)
        return mk_fail(l->err, MK_ERR_ARGUMENT, "%s:%u: include: more than %u files deep", s->path, s->line,
                       MK_CONFIG_MAX_DEPTH);
    const char *path = resolve(l, s, value);
    return path ? read_file(l, s, path) : fail_no_memory(l, s);
}

static mk_status parse_assignment(loader *l, const source *s, char *line)
{
    char *equals = strchr(line, '=');
    if (!equals || equals == line)
        return fail_at(l, s, "", "expected \"key = value\", found \"%s\"", shortened(line));
    *equals = 0;
    trim_end(line);
    char *value = skip_blanks(equals + 1);
    if (*value == '"') {
        char *inner = unquote(value);
        if (!inner)
            return fail_at(l, s, line,
                           "expected a value in quotes, with \\n, \\t, \\\" or \\\\ inside, and no text "
                           "after them%s",
                           "");
    } else {
        cut_comment(value);
        trim_end(value);
    }
    return strcmp(line, "include") == 0 ? include(l, s, value) : apply(l, s, line, value);
}

static mk_status parse_line(loader *l, source *s, char *line, size_t length)
{
    if (length > MK_CONFIG_MAX_LINE)
        return mk_fail(l->err, MK_ERR_ARGUMENT, "%s:%u: the line has %U bytes, expected at most %u", s->path,
                       s->line, (uint64_t)length, MK_CONFIG_MAX_LINE);
    if (memchr(line, 0, length))
        return fail_at(l, s, "", "a zero byte: this is no text file%s", "");
    line[length] = 0;
    line = skip_blanks(line);
    if (!*line || *line == '#')
        return MK_OK;
    return *line == '[' ? parse_section(l, s, line) : parse_assignment(l, s, line);
}

static mk_status parse(loader *l, source *s, char *text, size_t size)
{
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* byte order mark of some editors */
        text += 3;
        size -= 3;
    }
    while (size) {
        char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) : size;
        s->line++;
        mk_status status = parse_line(l, s, text, length);
        if (status)
            return status;
        size_t used = end ? length + 1 : length;
        text += used;
        size -= used;
    }
    return MK_OK;
}

/* An error about opening or reading a file: named where it is included, if it is. */
static mk_status fail_file(const loader *l, const source *from, const char *path, const char *what, int number)
{
    if (from)
        return mk_fail(l->err, MK_ERR_IO, "%s:%u: include: cannot %s %s: %e", from->path, from->line, what,
                       path, number);
    return mk_fail(l->err, MK_ERR_IO, "cannot %s the config file %s: %e", what, path, number);
}

/* Reads the whole file behind what is used, and one byte more for the last line's terminator. */
static mk_status read_text(loader *l, const source *from, const char *path, int fd, char **text, size_t *size)
{
    size_t length = 0, room = l->size - l->used;
    *text = l->memory + l->used;
    while (length < room) {
        ssize_t got = read(fd, *text + length, room - length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_file(l, from, path, "read", errno);
        if (got == 0)
            break;
        length += (size_t)got;
    }
    if (length == room)
        return mk_fail(l->err, MK_ERR_MEMORY, "the config file %s is too large: all together may take %U bytes",
                       path, (uint64_t)l->size);
    *size = length;
    l->used += length + 1;
    return MK_OK;
}

static mk_status read_open_file(loader *l, const source *from, const char *path, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_file(l, from, path, "read", errno);
    for (const source *s = from; s; s = s->parent)
        if (s->device == st.st_dev && s->inode == st.st_ino)
            return mk_fail(l->err, MK_ERR_ARGUMENT, "%s:%u: include: %s includes itself", from->path,
                           from->line, path);
    char *text;
    size_t size = 0;
    mk_status status = read_text(l, from, path, fd, &text, &size);
    if (status)
        return status;
    source s = {from, path, st.st_dev, st.st_ino, from ? from->depth + 1 : 0, ++l->readings, 0, 0};
    return parse(l, &s, text, size);
}

static mk_status read_file(loader *l, const source *from, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail_file(l, from, path, "open", errno);
    mk_status status = read_open_file(l, from, path, fd);
    close(fd);
    return status;
}

mk_status mk_config_load(mk_config *config, const char *path, void *memory, size_t size, mk_error *err)
{
    loader l = {config, memory, size, 0, 0, err};
    return read_file(&l, NULL, path);
}
