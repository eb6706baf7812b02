/* test_error.c - formatting without stdio. */
#include <errno.h>

#include "base/error.h"
#include "check.h"

static void check_format(void)
{
    char out[128];
    mk_format(out, sizeof out, "%s=%u/%U %d %%", "key", 4294967295u, UINT64_MAX, (int32_t)INT32_MIN);
    CHECK_STR(out, "key=4294967295/18446744073709551615 -2147483648 %");
    mk_format(out, sizeof out, "%x %x", (uint64_t)0, (uint64_t)0xDEADBEEFCAFEu);
    CHECK_STR(out, "0000000000000000 0000deadbeefcafe");
    mk_format(out, sizeof out, "%u %U %d", 0u, (uint64_t)0, (int32_t)-1);
    CHECK_STR(out, "0 0 -1");
    mk_format(out, sizeof out, "%e, %e, %e", ENOENT, ENOSPC, 9999);
    CHECK_STR(out, "no such file, no space left on the device, system error 9999");
    mk_format(out, sizeof out, "[%s] %q 100%", (const char *)NULL);
    CHECK_STR(out, "[] %q 100%");
    mk_format(out, sizeof out, "%s\n", "a\nb\x1b[1m\x7f\t\xc3\xa9");
    CHECK_STR(out, "a?b?[1m??\xc3\xa9\n");
    CHECK(mk_format(out, 0, "x") == 0);
    CHECK(mk_format(out, 1, "x") == 0 && !out[0]);
}

static void check_mebibytes(void)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0.0 MiB"},     {1u << 20, "1.0 MiB"},  {(1u << 20) - 1, "1.0 MiB"},         {52428, "0.0 MiB"},
        {52429, "0.1 MiB"}, {12897485, "12.3 MiB"}, {UINT64_MAX, "17592186044416.0 MiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        mk_format(out, sizeof out, "%M", cases[i].bytes);
        CHECK_STR(out, cases[i].text);
    }
}

/* Every capacity: what fits is there, terminated, and no character is cut in two. */
static void check_cutting(void)
{
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t room = 0; room < sizeof whole / sizeof *whole; room++) {
        char out[32];
        memset(out, '#', sizeof out);
        size_t length = mk_format(out, room + 1, "%s", text);
        CHECK_MSG(length == whole[room], "room %zu gives %zu", room, length);
        CHECK(out[length] == 0 && memcmp(out, text, length) == 0);
        CHECK(out[room + 1] == '#');
    }
}

static void check_fail(void)
{
    mk_error err;
    CHECK(mk_fail(NULL, MK_ERR_IO, "%s", "nowhere") == MK_ERR_IO);
    CHECK(mk_fail(&err, MK_ERR_FORMAT, "at %u", 7u) == MK_ERR_FORMAT);
    CHECK_STR(err.text, "at 7");
    CHECK(mk_fail(&err, MK_ERR_FORMAT, "x.mkn: %s", err.text) == MK_ERR_FORMAT);
    CHECK_STR(err.text, "x.mkn: at 7");
    for (int i = 0; i < 100; i++)
        mk_fail(&err, MK_ERR_FORMAT, "longer and longer: %s", err.text);
    CHECK(strlen(err.text) == sizeof err.text - 1);
}

static void check_status_text(void)
{
    for (int status = MK_OK; status <= MK_ERR_CONTEXT_FULL; status++)
        CHECK(strcmp(mk_status_text((mk_status)status), "unknown status") != 0);
    CHECK_STR(mk_status_text((mk_status)1000), "unknown status");
}

int main(void)
{
    check_format();
    check_mebibytes();
    check_cutting();
    check_fail();
    check_status_text();
    return check_end();
}
