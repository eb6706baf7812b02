/* The tokens of SmolLM2 are those of the reference, text by text. */
#include "check.h"
#include "golden/golden_text.h"
#include "makarna.h"

/* Buffers of exactly the sizes that the library asks for. */
static size_t tokenize(const mk_model *model, const char *text, size_t size, int32_t ids[GOLDEN_IDS])
{
    mk_error err = {""};
    size_t scratch_size = mk_tokenize_scratch_size(model, size), count;
    void *scratch = malloc(scratch_size);
    int32_t *exact = malloc((size + 3) * sizeof *exact);
    mk_status status = mk_tokenize(model, text, size, 0, exact, size + 3, &count, scratch, scratch_size, &err);
    CHECK_MSG(status == MK_OK, "%s", err.text);
    if (status != MK_OK || count > GOLDEN_IDS)
        count = 0;
    memcpy(ids, exact, count * sizeof *ids);
    free(scratch);
    free(exact);
    return count;
}

int main(int argc, char **argv)
{
    char path[4096], line[GOLDEN_LINE], shown[GOLDEN_LINE];
    const char *image = golden_image(argc, argv, "smollm2-q8.mkn", path);
    mk_model model;
    mk_error err;
    static int32_t expected[GOLDEN_IDS], ids[GOLDEN_IDS];
    if (!image)
        CHECK_SKIP("no image of SmolLM2: give its path, or a folder with smollm2-q8.mkn as MK_IMAGES");
    if (mk_model_open(&model, image, MK_LOAD_MAP, &err) != MK_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    FILE *file = golden_open(MK_TEST_DATA "/golden/tokens_smollm2.txt");
    while (golden_line(file, line)) {
        strcpy(shown, line);
        size_t size = golden_unescape(line), count = tokenize(&model, line, size, ids);
        if (!golden_line(file, line))
            break;
        size_t wanted = golden_ids(line, expected);
        CHECK_MSG(count == wanted && memcmp(ids, expected, count * sizeof *ids) == 0, "text \"%s\"", shown);
    }
    fclose(file);
    CHECK(check_count >= 400);
    CHECK(mk_is_end(&model, 2) && mk_is_end(&model, 0) && !mk_is_end(&model, 1));
    mk_model_close(&model);
    return check_end();
}
