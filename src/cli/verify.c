/* makarna verify - whether an image is whole. */
#include "cli/cli.h"

static int verify(int argc, char **argv)
{
    mk_config config;
    const char *operand;
    int status;
    if (!cli_parse(&cli_verify, argc, argv, &config, NULL, &operand, &status))
        return status;
    if (operand)
        config.model = operand;
    cli_session session;
    if ((status = cli_open(&session, &config)))
        return status;
    mk_error err;
    if (mk_model_verify(&session.model, &err) == MK_OK)
        cli_say("%s: whole, %U bytes\n", config.model, session.info.image_bytes);
    else
        status = cli_error("%s: %s", config.model, err.text);
    cli_close(&session);
    return status;
}

const cli_command cli_verify = {
    .name = "verify",
    .operand = "[MODEL]",
    .summary = "Compares the checksums of an image",
    .details = "Reads the whole image; other commands check no more than its header and directory.\n",
    .example = "  makarna verify smollm2-q4.mkn\n",
    .sections = MK_SECTION_MODEL,
    .run = verify,
};
