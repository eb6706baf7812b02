/* makarna tokenize - text to tokens. */
#include "cli/cli.h"
#include "text/vocab.h"

typedef struct tokenize_options {
    bool ids, special, bos;
} tokenize_options;

#define OPTION(field) offsetof(tokenize_options, field)
static const mk_option options[] = {
    {"ids", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(ids), 0, 0, NULL, 0, NULL,
     "the ids alone, on one line"},
    {"special", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(special), 0, 0, NULL, 0, NULL,
     "recognise special tokens in the text"},
    {"bos", 0, MK_OPTION_FLAG, MK_SECTION_COMMAND, OPTION(bos), 0, 0, NULL, 0, NULL,
     "put the token first that begins a text, where the model has one"},
};

static void say_ids(const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!cli_say(i ? " %d" : "%d", ids[i]))
            return;
    cli_say("\n");
}

/* A line for each token: id, tab, its own bytes in quotes. */
static int say_tokens(const mk_model *model, const int32_t *ids, size_t count)
{
    mk_vocab vocab;
    mk_error err;
    if (mk_vocab_open(model, &vocab, &err))
        return cli_error("%s", err.text);
    for (size_t i = 0; i < count; i++) {
        uint32_t size;
        const uint8_t *text = mk_vocab_text(&vocab, (uint32_t)ids[i], &size);
        cli_say("%d\t\"", ids[i]);
        cli_put_escaped((const char *)text, size);
        if (!cli_say("\"\n"))
            break;
    }
    return CLI_DONE;
}

static int tokenize_session(cli_session *session, const tokenize_options *own, const cli_text *text)
{
    unsigned flags = (own->special ? MK_TOKENIZE_SPECIAL : 0u) | (own->bos ? MK_TOKENIZE_BOS : 0u);
    cli_tokens tokens;
    int status = cli_text_to_tokens(session, text, flags, &tokens);
    if (status)
        return status;
    if (!own->ids)
        return say_tokens(&session->model, tokens.ids, tokens.count);
    say_ids(tokens.ids, tokens.count);
    return CLI_DONE;
}

static int tokenize(int argc, char **argv)
{
    mk_config config;
    tokenize_options own = {0};
    const char *operand;
    int status;
    if (!cli_parse(&cli_tokenize, argc, argv, &config, &own, &operand, &status))
        return status;
    cli_session session;
    if ((status = cli_open(&session, &config)))
        return status;
    cli_text text;
    status = cli_read_operand(&text, operand, SIZE_MAX / 2);
    if (status == CLI_DONE)
        status = tokenize_session(&session, &own, &text);
    cli_close(&session);
    return status;
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .operand = "[TEXT]",
    .summary = "Turns text into tokens",
    .details = "The text is TEXT, or standard input (without its last line end) if that is absent or \"-\".\n"
               "A line for each token: its id, a tab, its bytes in quotes.\n",
    .example = "  makarna tokenize -m smollm2-q4.mkn --ids \"Hello world\"\n",
    .sections = MK_SECTION_MODEL,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = tokenize,
};
