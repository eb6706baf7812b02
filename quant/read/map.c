#define _GNU_SOURCE /* madvise */
#include "quant/read/map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "quant/read/fail.h"

static mk_status map_descriptor(source_map *map, int fd, const char *path, mk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return quant_fail(err, MK_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: is a directory; expected a .gguf file, or a .bin file of llama2.c", path);
    if (!S_ISREG(st.st_mode))
        return quant_fail(err, MK_ERR_IO,
                          "%s: not a regular file; a pipe or device must be copied into one first", path);
    if (st.st_size == 0)
        return quant_fail(err, MK_ERR_FORMAT, "%s: empty file; download it again", path);
    if ((uint64_t)st.st_size > SIZE_MAX)
        return quant_fail(err, MK_ERR_UNSUPPORTED,
                          "%s: %llu bytes do not fit into the address space of this machine; "
                          "quantize on a 64-bit one",
                          path, (unsigned long long)st.st_size);
    void *address = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED)
        return quant_fail(err, MK_ERR_IO, "%s: cannot map %llu bytes: %s", path, (unsigned long long)st.st_size,
                          strerror(errno));
    map->data = address;
    map->size = (uint64_t)st.st_size;
    map->device = (uint64_t)st.st_dev;
    map->inode = (uint64_t)st.st_ino;
    return MK_OK;
}

mk_status source_map_open(source_map *map, const char *path, mk_error *err)
{
    *map = (source_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not block us */
    if (fd < 0)
        return quant_fail(err, MK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    mk_status status = map_descriptor(map, fd, path, err);
    close(fd);
    return status;
}

void source_map_close(source_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    *map = (source_map){0};
}

void source_map_release(const source_map *map, const uint8_t *begin, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = (uint64_t)(begin - map->data);
    uint64_t end = (first + bytes) / page * page;
    first = (first + page - 1) / page * page;
    if (end > first)
        (void)madvise((void *)(uintptr_t)(map->data + first), (size_t)(end - first), MADV_DONTNEED);
}

uint64_t source_map_checksum(const source_map *map)
{
    const uint64_t window = 8u << 20;
    mk_hash_state state;
    mk_hash_begin(&state, 0);
    for (uint64_t at = 0; at < map->size; at += window) {
        uint64_t bytes = map->size - at < window ? map->size - at : window;
        mk_hash_update(&state, map->data + at, (size_t)bytes);
        source_map_release(map, map->data + at, bytes);
    }
    return mk_hash_end(&state);
}
