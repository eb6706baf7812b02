/* cli.h - what the subcommands share: printing, the command line, and opening a model.
 *
 * Output never goes through stdio: it is formatted into fixed buffers and written by write(2), so that
 * nothing is allocated after "ready", and so that a full disk or a closed pipe is noticed. Functions that
 * return an int return an exit status. */
#ifndef MK_CLI_H
#define MK_CLI_H

#include "config/config.h"
#include "makarna.h"

enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
};

/* ---- Printing (print.c); formats as of mk_format --------------------------------------------------- */

/* A line to standard error; cli_error begins it with "makarna: " and returns CLI_FAILED. */
void cli_note(const char *format, ...);
int cli_error(const char *format, ...);

/* To standard output, buffered, and as it is. False once standard output failed: by then the reason was
 * told, except for a reader that went away. */
bool cli_say(const char *format, ...);
bool cli_put(const void *data, size_t size);
bool cli_flush(void);

/* Whether the bytes went out whole. */
bool cli_write(int fd, const void *data, size_t size);

/* `status`, or CLI_FAILED if standard output failed; flushes it. */
int cli_finish(int status);

/* A number with 0 to 6 decimals, for formats' %s. Returns out. */
const char *cli_fixed(char out[32], double value, int decimals);

/* Bytes of the valid UTF-8 character that text [size] begins with; 0 if there is none. */
size_t cli_character(const char *text, size_t size);

/* Bytes as printable UTF-8: control characters, invalid sequences and backslashes as escapes. */
void cli_put_escaped(const char *text, size_t size);

/* Seconds since some moment, and since main began without what was deducted: waiting for the user. */
double cli_now(void);
double cli_age(void);
void cli_deduct(double seconds);

/* ---- Command line (command_line.c) ----------------------------------------------------------------- */

typedef struct cli_command {
    const char *name;
    const char *operand;      /* as the usage line shows it, NULL for none */
    const char *summary;      /* one line */
    const char *details;      /* lines */
    const char *example;      /* lines */
    unsigned sections;        /* of the config options that have a meaning here */
    const mk_option *options; /* its own */
    size_t option_count;
    int (*run)(int argc, char **argv); /* arguments after the name */
} cli_command;

extern const cli_command cli_run, cli_info, cli_bench, cli_perplexity, cli_tokenize, cli_verify;

/* Reads the arguments: config file first, then the options over it, the command's own into `own`. At
 * most one operand, *operand is NULL if there is none. False if the program is to end with *status. */
bool cli_parse(const cli_command *command, int argc, char **argv, mk_config *config, void *own,
               const char **operand, int *status);

void cli_help(const cli_command *command);

/* ---- Model, memory, context (session.c) ------------------------------------------------------------ */

typedef struct cli_session {
    const mk_config *config;
    mk_model model;
    mk_model_info info;
    mk_params params;
    mk_memory_plan plan;
    mk_context *ctx;
} cli_session;

/* Opens config->model; the second refuses a vocabulary alone. */
int cli_open(cli_session *session, const mk_config *config);
int cli_open_runnable(cli_session *session, const mk_config *config);

/* Sets params from the config. The rest of params may then be changed before cli_plan. */
void cli_set_params(cli_session *session);

/* Sets plan, and refuses it where it is above config->memory, with what is needed. */
int cli_plan(cli_session *session);

/* The kernel sets of this build on one line. */
void cli_say_kernels(const char *label);

/* The plan as a table, by a function that prints a line. */
void cli_say_plan(const mk_memory_plan *plan, const mk_params *params, void (*line)(const char *format, ...));

/* Bytes that the system could still give, swap included; UINT64_MAX if it does not say. */
uint64_t cli_available_memory(void);

/* Zeroed memory for `purpose`; NULL after an error message. Refused where the system has not so much. */
void *cli_map(uint64_t bytes, const char *purpose);

/* Creates the context in `arena`, and says so on standard error. */
int cli_create(cli_session *session, void *arena);

void cli_close(cli_session *session);

/* ---- Input (input.c) ------------------------------------------------------------------------------- */

typedef struct cli_text {
    const char *data;
    size_t size;
    void *mapping; /* NULL: not ours */
    size_t mapping_size;
    bool more; /* the limit cut it */
} cli_text;

/* All of a file, or of standard input where path is NULL or "-", up to `limit` bytes. */
int cli_read(cli_text *text, const char *path, uint64_t limit);

/* The operand itself, or standard input as above without its last line end. */
int cli_read_operand(cli_text *text, const char *operand, uint64_t limit);

void cli_release(cli_text *text);

typedef struct cli_tokens {
    int32_t *ids;
    size_t count;
} cli_tokens;

/* A text's tokens, in a mapping that stays. flags: MK_TOKENIZE_... */
int cli_text_to_tokens(const cli_session *session, const cli_text *text, unsigned flags, cli_tokens *tokens);

#endif
