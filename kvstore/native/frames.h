/* Payloads in memory, shared by the workers of one training. Through them, kernels use a model
 * that is larger than memory without being linked to the store.
 *
 * A frame holds the payload of one key while it is in memory. A process has at most one frame
 * per key, so no update made in it is lost or overwrites a neighbour. This gives by
 * construction what the paper achieves with get, merge, put (Qin, Torres, Rusu, VLDB 2017,
 * section 6). A worker acquires the frames of a chunk of rows, trains in place, and releases
 * them.
 */
#ifndef TUSK_KVSTORE_FRAMES_H
#define TUSK_KVSTORE_FRAMES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tusk_frame {
    void *weights;  /* float or double, aligned to 64 bytes; threads may write it together */
    double stamp;   /* for the trainer's use; travels with the payload, 0 at first */
    uint32_t width; /* weights */
} tusk_frame;

enum tusk_acquired {
    TUSK_ACQUIRED = 0,
    TUSK_STORE_FAILED = 1,  /* a sentence is in error */
    TUSK_STORE_CORRUPT = 2, /* as above */
    TUSK_STORE_NO_MEMORY = 3,
    TUSK_CHUNK_TOO_LARGE = 4, /* the frames of one chunk do not fit into a worker's share */
    TUSK_ACQUIRE_CANCELLED = 5
};

#define TUSK_STORE_ERROR 512

typedef struct tusk_frames tusk_frames;

typedef struct tusk_frame_access {
    tusk_frames *frames;
    int32_t weight_size; /* 4 or 8 */
    /* Puts the frames of n distinct keys, ascending, into out, and holds them in memory until
     * they are released. A worker holds the frames of one call at a time. A key never written
     * reads as zeros. cancelled may be NULL; otherwise it is called now and then while the call
     * waits or reads, and ends the call by returning nonzero. Nothing is held after any code
     * but TUSK_ACQUIRED. */
    int (*acquire)(tusk_frames *frames, int32_t worker, const uint64_t *keys,
                   const uint32_t *widths, int64_t n, tusk_frame **out, int (*cancelled)(void *),
                   void *argument, char *error);
    /* changed: whether the weights or the stamps of these frames were written to. */
    void (*release)(tusk_frames *frames, int32_t worker, tusk_frame *const *held, int64_t n,
                    int changed);
    /* Announces the keys that a worker will acquire next, distinct and ascending, so that
     * workers that read them deliver them to it. The keys must stay in place until its next
     * call. n = 0 cancels the announcement. NULL if frames are not delivered. */
    void (*expect)(tusk_frames *frames, int32_t worker, const uint64_t *keys, int64_t n);
    /* The n parts of the k-th frame that a worker holds: pieces of its weights with stamps of
     * their own, which replace the frame's. NULL if each frame has one stamp. */
    tusk_frame *(*parts)(tusk_frames *frames, int32_t worker, int64_t k, int64_t *n);
} tusk_frame_access;

#ifdef __cplusplus
}
#endif

#endif
