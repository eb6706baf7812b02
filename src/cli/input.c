#define _GNU_SOURCE
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_SIZE 65536u

/* Makes room for at least one more byte, doubling. */
static bool grow(cli_text *text)
{
    size_t size = text->mapping_size ? text->mapping_size * 2 : FIRST_SIZE;
    if (size < text->mapping_size || size - text->mapping_size > cli_available_memory()) {
        errno = ENOMEM;
        return false;
    }
    void *p = text->mapping ? mremap(text->mapping, text->mapping_size, size, MREMAP_MAYMOVE)
                            : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    text->mapping = p;
    text->mapping_size = size;
    text->data = p;
    return true;
}

static int read_all(cli_text *text, int fd, const char *name, uint64_t limit)
{
    for (;;) {
        if (text->size == text->mapping_size && !grow(text))
            return cli_error("no memory for %s beyond %U bytes: %e", name, (uint64_t)text->size, errno);
        ssize_t got = read(fd, (char *)text->mapping + text->size, text->mapping_size - text->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cli_error("cannot read %s: %e", name, errno);
        if (got == 0)
            return CLI_DONE;
        text->size += (size_t)got;
        if (text->size > limit) {
            text->size = (size_t)limit;
            text->more = true;
            return CLI_DONE;
        }
    }
}

int cli_read(cli_text *text, const char *path, uint64_t limit)
{
    *text = (cli_text){.data = ""};
    if (!path || strcmp(path, "-") == 0) {
        if (isatty(STDIN_FILENO))
            cli_note("reading the text from the terminal; Ctrl-D ends it");
        return read_all(text, STDIN_FILENO, "standard input", limit);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return cli_error("cannot open %s: %e", path, errno);
    int status = read_all(text, fd, path, limit);
    close(fd);
    return status;
}

int cli_read_operand(cli_text *text, const char *operand, uint64_t limit)
{
    if (operand && strcmp(operand, "-") != 0) {
        *text = (cli_text){.data = operand, .size = strlen(operand)};
        return CLI_DONE;
    }
    int status = cli_read(text, NULL, limit);
    if (!text->more && text->size && text->data[text->size - 1] == '\n')
        text->size -= text->size > 1 && text->data[text->size - 2] == '\r' ? 2 : 1;
    return status;
}

void cli_release(cli_text *text)
{
    if (text->mapping)
        munmap(text->mapping, text->mapping_size);
    *text = (cli_text){.data = ""};
}

static int tokenize(const cli_session *session, const cli_text *text, unsigned flags, cli_tokens *tokens,
                    uint64_t capacity)
{
    mk_error err;
    size_t scratch_bytes = mk_tokenize_scratch_size(&session->model, text->size);
    if (!scratch_bytes)
        return cli_error("a text of %U bytes is too long for this machine", (uint64_t)text->size);
    void *scratch = cli_map(scratch_bytes, "tokenizing this text");
    if (!scratch)
        return CLI_FAILED;
    mk_status status = mk_tokenize(&session->model, text->data, text->size, flags, tokens->ids,
                                   (size_t)capacity, &tokens->count, scratch, scratch_bytes, &err);
    munmap(scratch, scratch_bytes);
    return status ? cli_error("%s", err.text) : CLI_DONE;
}

int cli_text_to_tokens(const cli_session *session, const cli_text *text, unsigned flags, cli_tokens *tokens)
{
    uint64_t capacity = (uint64_t)text->size + 3;
    tokens->ids = cli_map(capacity * sizeof(int32_t), "the tokens of this text");
    return tokens->ids ? tokenize(session, text, flags, tokens, capacity) : CLI_FAILED;
}
