#include "model_value.h"

#include "access/detoast.h"
#include "common/hashfn.h"

#include "../../rowblock/text_hash.h"

#define MOST_NOTED 100000 /* limit on models of a call site whose hashes are kept */
#define FIRST_PLACES 64
#define HASHED_BYTES 8192
#define LINE 64

StaticAssertDecl(sizeof(noted_model) <= LINE, "an entry is one cache line");
StaticAssertDecl(TOAST_POINTER_SIZE == 18, "a pointer to TOAST is a head and two words");

static bool is_pointer(const struct varlena *bytes) {
    return VARSIZE_ANY(bytes) == TOAST_POINTER_SIZE;
}

/* Hash of the first bytes, in four lanes that the processor multiplies in parallel. */
static uint64 hash_of_bytes(const struct varlena *bytes) {
    const uint64 odd = UINT64CONST(0x9E3779B97F4A7C15);
    const char *at = (const char *)bytes;
    Size size = VARSIZE_ANY(bytes), n = Min(size, HASHED_BYTES) & ~(Size)31;
    uint64 lane[4] = {size, 1, 2, 3};
    for (Size i = 0; i < n; i += sizeof lane) {
        uint64 words[4];
        memcpy(words, at + i, sizeof words);
        for (int k = 0; k < 4; k++)
            lane[k] = (lane[k] ^ words[k] ^ lane[k] >> 29) * odd;
    }
    uint64 rest = hash_bytes_extended((const unsigned char *)at + n, (int)Min(size - n, 31), 0);
    return hash_bytes_extended((const unsigned char *)lane, sizeof lane, rest);
}

static uint64 hash_of(const struct varlena *bytes) {
    uint64 words[2], hash;
    if (is_pointer(bytes)) {
        memcpy(words, (const char *)bytes + TOAST_POINTER_SIZE - sizeof words, sizeof words);
        hash = tusk_hash_mix(tusk_hash_mix(words[0], words[1]), 0);
    } else {
        hash = hash_of_bytes(bytes);
    }
    return hash ? hash : 1;
}

static noted_model *place_at(const noted_models *all, uint32 at) {
    return (noted_model *)((char *)all->place + (Size)(at & all->mask) * LINE);
}

/* The entry of a hash, or the free slot for it. */
static noted_model *place_of(const noted_models *all, uint64 hash) {
    uint32 at = (uint32)hash;
    while (place_at(all, at)->hash && place_at(all, at)->hash != hash)
        at++;
    return place_at(all, at);
}

static void make_places(noted_models *all, uint32 n) {
    noted_models old = *all;
    all->memory = MemoryContextAllocZero(all->context, (Size)n * LINE + LINE);
    all->place = (noted_model *)TYPEALIGN(LINE, all->memory);
    all->mask = n - 1;
    for (uint32 i = 0; old.place && i <= old.mask; i++)
        if (place_at(&old, i)->hash)
            *place_of(all, place_at(&old, i)->hash) = *place_at(&old, i);
    if (old.memory)
        pfree(old.memory);
}

noted_model *note_model(noted_models *all, const struct varlena *bytes, bool *again) {
    uint64 hash = hash_of(bytes);
    if (!all->place)
        make_places(all, FIRST_PLACES);
    noted_model *found = place_of(all, hash);
    *again = found->hash;
    if (*again)
        return found;
    if (all->n >= MOST_NOTED)
        return NULL;
    if (2 * all->n > all->mask) {
        make_places(all, 2 * (all->mask + 1));
        found = place_of(all, hash);
    }
    all->n++;
    found->hash = hash;
    return found;
}

void note_read(noted_model *noted, const struct varlena *bytes) {
    noted->is_pointer = is_pointer(bytes);
    if (noted->is_pointer)
        memcpy(noted->pointer, bytes, TOAST_POINTER_SIZE);
}

/* Prefetches the first members of the predictor, which each row needs. */
static void approach(noted_model *noted) {
    const char *kept = (const char *)noted->kept;
    for (Size at = 0; at < offsetof(predictor, packed); at += LINE)
        __builtin_prefetch(kept + at);
    if (!noted->laid && (noted->laid = noted->kept->layouts))
        noted->first = tusk_class_layouts_first(noted->laid);
    if (noted->laid) {
        __builtin_prefetch(noted->laid);
        tusk_layout_approach(noted->first);
    }
}

bool recognise(noted_model *noted, const struct varlena *bytes) {
    if (!noted->is_pointer || !is_pointer(bytes) ||
        memcmp(noted->pointer, bytes, TOAST_POINTER_SIZE) != 0)
        return false;
    approach(noted);
    return true;
}
