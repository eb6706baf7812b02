#include "config/config.h"

#include <string.h>

#define AT(field) offsetof(mk_config, field)

const mk_option mk_config_options[MK_CONFIG_OPTIONS] = {
    {"model", 'm', MK_OPTION_PATH, MK_SECTION_MODEL, AT(model), 0, 0, NULL, 0, "FILE",
     "the model image (.mkn)"},
    {"load", 0, MK_OPTION_CHOICE, MK_SECTION_MODEL, AT(load), 0, 0, "map|preload|lock", 0, "HOW",
     "map: read pages when they are used; preload: all at the start; lock: keep all"},

    {"isa", 0, MK_OPTION_TEXT, MK_SECTION_ENGINE, AT(isa), 0, 0, NULL, 0, "NAME",
     "kernels by name; the fastest that the CPU has if not given"},
    {"threads", 0, MK_OPTION_COUNT, MK_SECTION_ENGINE, AT(threads), 1, 64, "auto", 0, "N",
     "worker threads, or auto"},
    {"batch", 0, MK_OPTION_COUNT, MK_SECTION_ENGINE, AT(batch), 1, 512, "auto", 0, "N",
     "prompt tokens computed together, or auto"},

    {"context", 0, MK_OPTION_COUNT, MK_SECTION_MEMORY, AT(context), 1, 1u << 24, "auto", 0, "N",
     "tokens of prompt and answer, or auto: the model's own limit, at most 2048"},
    {"kv", 0, MK_OPTION_CHOICE, MK_SECTION_MEMORY, AT(kv), 0, 0, "q8|q4", 0, "TYPE",
     "number format of the KV cache, q8 or q4"},
    {"memory", 0, MK_OPTION_SIZE, MK_SECTION_MEMORY, AT(memory), 1, UINT64_MAX, NULL, 0, "SIZE",
     "the most that working memory may take beside the image, like 512M"},

    {"system", 0, MK_OPTION_TEXT, MK_SECTION_CHAT, AT(system), 0, 0, NULL, 0, "TEXT",
     "system text of the conversation; the model's own if not given"},
    {"raw", 0, MK_OPTION_FLAG, MK_SECTION_CHAT, AT(raw), 0, 0, NULL, 0, NULL,
     "continue the prompt as plain text, without the chat format"},

    {"n", 'n', MK_OPTION_COUNT, MK_SECTION_SAMPLING, AT(n), 0, 1u << 24, "unlimited", MK_CONFIG_UNLIMITED, "N",
     "tokens of the answer at most, or unlimited"},
    {"seed", 0, MK_OPTION_NUMBER, MK_SECTION_SAMPLING, AT(seed), 0, UINT64_MAX - 1, "random",
     MK_CONFIG_SEED_RANDOM, "N", "a seed gives one answer everywhere; or random"},
    {"temp", 0, MK_OPTION_REAL, MK_SECTION_SAMPLING, AT(sampling.temperature), 0, 100000, NULL, 0, "T",
     "temperature; 0, the default, always takes the most likely token"},
    {"top-k", 0, MK_OPTION_COUNT, MK_SECTION_SAMPLING, AT(sampling.top_k), 0, 1u << 24, NULL, 0, "K",
     "draw from the K most likely tokens; 0: off"},
    {"top-p", 0, MK_OPTION_REAL, MK_SECTION_SAMPLING, AT(sampling.top_p), 0, 1000, NULL, 0, "P",
     "draw from the most likely tokens that together reach P; 1: off"},
    {"min-p", 0, MK_OPTION_REAL, MK_SECTION_SAMPLING, AT(sampling.min_p), 0, 1000, NULL, 0, "P",
     "drop tokens less than P times as likely as the most likely one; 0: off"},
    {"repeat-penalty", 0, MK_OPTION_REAL, MK_SECTION_SAMPLING, AT(sampling.repeat_penalty), 10, 100000, NULL, 0,
     "X", "make tokens of the recent text less likely; 1: off"},
    {"repeat-last", 0, MK_OPTION_COUNT, MK_SECTION_SAMPLING, AT(sampling.repeat_last), 0, 1u << 24, NULL, 0,
     "N", "how many tokens the recent text has"},
};

int mk_config_find(const char *name)
{
    for (unsigned i = 0; i < MK_CONFIG_OPTIONS; i++)
        if (strcmp(mk_config_options[i].name, name) == 0)
            return (int)i;
    return -1;
}

mk_config mk_config_default(void)
{
    mk_config config = {.n = MK_CONFIG_UNLIMITED, .sampling = mk_sampling_default()};
    config.sampling.repeat_last = 64; /* for when a penalty is given alone */
    return config;
}
