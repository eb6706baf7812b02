/* The greedy text of stories260K, as its author's program prints it in float32. */
#include "check.h"
#include "golden/golden_text.h"
#include "makarna.h"

static const char expected[] =
    ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red "
    "ball. "
    "She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\" "
    "Lily was sad and didn't know";

int main(int argc, char **argv)
{
    char path[4096], text[4096];
    const char *image = golden_image(argc, argv, "stories260k-q8.mkn", path);
    mk_model model;
    mk_error err = {""};
    if (!image)
        CHECK_SKIP("no image of stories260K: give its path, or a folder with stories260k-q8.mkn as MK_IMAGES");
    CHECK_MSG(mk_model_open(&model, image, MK_LOAD_MAP, &err) == MK_OK, "%s", err.text);
    mk_params p = mk_params_default(&model);
    mk_memory_plan plan;
    CHECK(mk_plan_memory(&model, &p, &plan, &err) == MK_OK);
    void *arena = aligned_alloc(64, (size_t)plan.total);
    mk_context *ctx;
    CHECK(mk_context_create(&model, &p, arena, (size_t)plan.total, &ctx, &err) == MK_OK);
    const char *prompt = "Once upon a time";
    size_t size = strlen(prompt), scratch_size = mk_tokenize_scratch_size(&model, size), count;
    void *scratch = malloc(scratch_size);
    int32_t ids[64];
    CHECK(mk_tokenize(&model, prompt, size, MK_TOKENIZE_BOS, ids, 64, &count, scratch, scratch_size, &err) ==
          MK_OK);
    CHECK(mk_eval(ctx, ids, count, &err) == MK_OK);
    mk_sampling greedy = mk_sampling_default();
    mk_detokenizer decoder = {.started = true};
    size_t length = 0, tokens = 0;
    for (; tokens < 120 && length < sizeof expected - 1; tokens++) {
        int32_t token = mk_sample(ctx, &greedy, NULL);
        length += mk_detokenize(&model, &decoder, token, text + length);
        CHECK(mk_eval(ctx, &token, 1, &err) == MK_OK);
    }
    text[length] = 0;
    size_t same = 0;
    while (same < sizeof expected - 1 && text[same] == expected[same])
        same++;
    printf("%zu tokens, %zu of %zu characters as expected\n", tokens, same, sizeof expected - 1);
    CHECK_MSG(same == sizeof expected - 1 && tokens >= 40, "got \"%s\"", text);
    mk_context_destroy(ctx);
    mk_model_close(&model);
    free(arena);
    free(scratch);
    return check_end();
}
