/* makarna perplexity - how well a model predicts a text, and a hash of all its logits. The text is cut
 * into windows that know nothing of each other: each begins with an empty context. */
#define _POSIX_C_SOURCE 200809L
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "base/error.h"

typedef struct perplexity_options {
    const char *file, *logits;
    uint32_t tokens, window;
    bool digest, bos;
} perplexity_options;

#define OPTION(field) offsetof(perplexity_options, field)
static const mk_option options[] = {
    {"file", 'f', MK_OPTION_PATH, MK_SECTION_COMMAND, OPTION(file), 0, 0, NULL, 0, "FILE",
     "the text; standard input if not given or \"-\""},
    {"tokens", 0, MK_OPTION_COUNT, MK_SECTION_COMMAND, OPTION(tokens), 2, UINT32_MAX, "all", UINT32_MAX, "N",
     "the first N tokens of the text, all if not given"},
    {"window", 0, MK_OPTION_COUNT, MK_SECTION_COMMAND, OPTION(window), 2, 1u << 24, NULL, 0, "N",
     "tokens of a window, 512 if not given"},
    {"bos", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(bos), 0, 0, NULL, 0, NULL,
     "put the token first that begins a text, where the model has one"},
    {"digest", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(digest), 0, 0, NULL, 0, NULL,
     "print a hash of all logits; batch, threads and kernels do not change it"},
    {"logits", 0, MK_OPTION_PATH, MK_SECTION_COMMAND, OPTION(logits), 0, 0, NULL, 0, "FILE",
     "write all logits there, as float32 [token][vocabulary]"},
};

typedef struct evaluation {
    cli_session session;
    const perplexity_options *own;
    const int32_t *ids;
    size_t count;
    int logits_file; /* -1: none */
    double nll;      /* sum of negative log-likelihoods */
    uint64_t predictions;
    uint64_t digest;
} evaluation;

/* -log softmax(logits)[target]. */
static double negative_log_likelihood(const float *logits, uint32_t vocabulary, int32_t target)
{
    double largest = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < vocabulary; i++)
        if ((double)logits[i] > largest)
            largest = (double)logits[i];
    for (uint32_t i = 0; i < vocabulary; i++)
        sum += exp((double)logits[i] - largest);
    return log(sum) + largest - (double)logits[target];
}

/* The logits after token `at` of the text; the last token of a window predicts nothing. */
static int take_logits(evaluation *e, const float *logits, size_t at, bool predicts)
{
    uint32_t vocabulary = e->session.info.vocabulary;
    size_t bytes = vocabulary * sizeof *logits;
    e->digest = mk_hash(logits, bytes, e->digest);
    if (e->logits_file >= 0 && !cli_write(e->logits_file, logits, bytes))
        return cli_error("cannot write %s: %e", e->own->logits, errno);
    if (predicts) {
        e->nll += negative_log_likelihood(logits, vocabulary, e->ids[at + 1]);
        e->predictions++;
    }
    return CLI_DONE;
}

static int evaluate_window(evaluation *e, size_t begin, size_t end)
{
    mk_error err;
    mk_context *ctx = e->session.ctx;
    if (mk_rewind(ctx, 0, &err))
        return cli_error("%s", err.text);
    for (size_t at = begin; at < end;) {
        size_t now = end - at < e->session.params.batch ? end - at : e->session.params.batch;
        if (mk_eval(ctx, e->ids + at, now, &err))
            return cli_error("%s", err.text);
        for (size_t i = 0; i < now; i++) {
            int status = take_logits(e, mk_logits(ctx, now - 1 - i), at + i, at + i + 1 < end);
            if (status)
                return status;
        }
        at += now;
    }
    return CLI_DONE;
}

static double perplexity_of(const evaluation *e)
{
    return e->predictions ? exp(e->nll / (double)e->predictions) : 0;
}

static void show_progress(const evaluation *e, size_t done)
{
    char value[32], line[128];
    size_t length = mk_format(line, sizeof line, "\r%U of %U tokens, perplexity %s ", (uint64_t)done,
                              (uint64_t)e->count, cli_fixed(value, perplexity_of(e), 4));
    cli_write(STDERR_FILENO, line, length);
    if (done == e->count)
        cli_write(STDERR_FILENO, "\r\033[K", 4);
}

static int evaluate(evaluation *e)
{
    bool progress = isatty(STDERR_FILENO);
    for (size_t begin = 0; begin < e->count;) {
        size_t end = e->count - begin < e->own->window ? e->count : begin + e->own->window;
        int status = evaluate_window(e, begin, end);
        if (status)
            return status;
        if (progress)
            show_progress(e, end);
        begin = end;
    }
    return CLI_DONE;
}

static void say_results(const evaluation *e)
{
    char value[32], nll[32];
    double mean = e->predictions ? e->nll / (double)e->predictions : 0;
    cli_fixed(value, perplexity_of(e), 4);
    cli_fixed(nll, mean, 6);
    if (e->own->digest) {
        cli_say("digest: %x\n", e->digest);
        cli_note("perplexity: %s\ntokens: %U, predictions: %U, mean negative log-likelihood: %s", value,
                 (uint64_t)e->count, e->predictions, nll);
    } else {
        cli_say("perplexity: %s\ntokens: %U, predictions: %U, mean negative log-likelihood: %s\n", value,
                (uint64_t)e->count, e->predictions, nll);
    }
}

static int open_logits(evaluation *e)
{
    e->logits_file = -1;
    if (!e->own->logits)
        return CLI_DONE;
    e->logits_file = open(e->own->logits, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return e->logits_file < 0 ? cli_error("cannot create %s: %e", e->own->logits, errno) : CLI_DONE;
}

static int close_logits(evaluation *e, int status)
{
    if (e->logits_file >= 0 && close(e->logits_file) != 0 && status == CLI_DONE)
        return cli_error("cannot write %s: %e", e->own->logits, errno);
    return status;
}

static int read_tokens(evaluation *e)
{
    cli_text text;
    cli_tokens tokens;
    int status = cli_read(&text, e->own->file, SIZE_MAX / 2);
    if (status == CLI_DONE)
        status = cli_text_to_tokens(&e->session, &text, e->own->bos ? MK_TOKENIZE_BOS : 0, &tokens);
    cli_release(&text);
    if (status)
        return status;
    e->ids = tokens.ids;
    e->count = tokens.count < e->own->tokens ? tokens.count : e->own->tokens;
    if (e->count < 2)
        return cli_error("the text has %U tokens: at least 2 are needed", (uint64_t)tokens.count);
    return CLI_DONE;
}

/* One window is all that the context must hold, and the logits of a whole batch are kept. */
static int create_context(evaluation *e)
{
    cli_session *session = &e->session;
    cli_set_params(session);
    session->params.context = e->own->window;
    if (session->params.context > e->count)
        session->params.context = (uint32_t)e->count;
    if (session->params.context > session->info.context)
        return cli_error("a window of %u tokens is longer than the model's context of %u: give --window %u",
                         session->params.context, session->info.context, session->info.context);
    if (session->params.batch > session->params.context)
        session->params.batch = session->params.context;
    session->params.max_logits = session->params.batch;
    int status = cli_plan(session);
    if (status)
        return status;
    void *arena = cli_map(session->plan.total, "the arena");
    return arena ? cli_create(session, arena) : CLI_FAILED;
}

static int perplexity(int argc, char **argv)
{
    mk_config config;
    perplexity_options own = {.tokens = UINT32_MAX, .window = 512};
    const char *operand;
    int status;
    if (!cli_parse(&cli_perplexity, argc, argv, &config, &own, &operand, &status))
        return status;
    evaluation e = {.own = &own, .logits_file = -1};
    if ((status = cli_open_runnable(&e.session, &config)))
        return status;
    if ((status = read_tokens(&e)) == CLI_DONE && (status = create_context(&e)) == CLI_DONE &&
        (status = open_logits(&e)) == CLI_DONE)
        status = close_logits(&e, evaluate(&e));
    if (status == CLI_DONE)
        say_results(&e);
    cli_close(&e.session);
    return status;
}

const cli_command cli_perplexity = {
    .name = "perplexity",
    .summary = "Measures how well a model predicts a text",
    .details = "The text is cut into windows, each begins with an empty context. The context is as long as a\n"
               "window, whatever the config says. With --digest, only the hash goes to standard output.\n",
    .example = "  makarna perplexity -m smollm2-q4.mkn -f wikitext2-valid.txt --tokens 8192\n"
               "  makarna perplexity -m smollm2-q4.mkn -f text.txt --digest --isa scalar\n",
    .sections = MK_SECTION_MODEL | MK_SECTION_ENGINE | MK_SECTION_MEMORY,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = perplexity,
};
