// Epochs of matrix factorization over vectors in a store, which are accessed through frames
// (kvstore/native/frames.h).
//
// A block of ratings is a range of users by a range of items. A worker acquires the block's keys
// in one call and trains the vectors in place, in the frames. Blocks that run in parallel may
// share a key but no vector. So no update is lost or torn, and the result is the same for any
// number of threads. If the keys of a block do not fit into the worker's share of memory, the
// block is trained in pieces.
//
// One key per weight is the paper's baseline. There a vector is not contiguous, so it is copied to
// a buffer and back.
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>

#include "../shared/pool.hpp"
#include "keys.hpp"
#include "train.hpp"

namespace tusk {
namespace {

// The error that ends an epoch early: code and message of the first worker that failed.
struct Failure {
    std::mutex lock;
    std::atomic<int> code{TK_OK};
    char sentence[TUSK_STORE_ERROR] = "";

    void set(int of, const char *why) {
        std::lock_guard guard(lock);
        if (code)
            return;
        std::snprintf(sentence, sizeof sentence, "%s", why);
        code = of;
    }
};

int code_of_acquire(int code) {
    switch (code) {
    case TUSK_STORE_FAILED:
        return TK_FACTORS_STORE_FAILED;
    case TUSK_STORE_CORRUPT:
        return TK_FACTORS_STORE_CORRUPT;
    case TUSK_CHUNK_TOO_LARGE:
        return TK_FACTORS_TOO_LARGE;
    case TUSK_ACQUIRE_CANCELLED:
        return TK_CANCELLED;
    default:
        return TK_NO_MEMORY;
    }
}

int is_cancelled(void *mark) {
    return cancelled(*(const int64_t *)mark);
}

class Clock {
public:
    explicit Clock(int64_t &sum) : sum_(sum), began_(std::chrono::steady_clock::now()) {}
    ~Clock() {
        auto took = std::chrono::steady_clock::now() - began_;
        sum_ += std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
    }

private:
    int64_t &sum_;
    std::chrono::steady_clock::time_point began_;
};

// The bundles of one side that a piece needs, while a worker holds them.
struct Held {
    const Side *side;
    KeySide *keys;
    uint64_t seed; // for the initial factors
    const int32_t *needs = nullptr;
    int32_t n = 0;
    std::vector<float *> vectors; // by index in the range
    int32_t first = 0;            // first index of the range
    std::vector<float> room;      // with one key per weight: copies of the vectors

    Held(const Side &s, KeySide &k, uint64_t seed) : side(&s), keys(&k), seed(seed) {}

    void enter(int32_t range) {
        first = side->first[range];
        vectors.resize((size_t)(side->first[range + 1] - first));
    }
    template <class Body> void each(Body &&body) const {
        for (int32_t k = 0; k < n; k++)
            body(needs[k], keys->bundles[needs[k]]);
    }
    Scattered table() const { return {vectors.data(), first}; }
};

// One thread's work on one block after another.
class Worker {
public:
    Worker(tk_stored_factors *job, Failure &failure, int32_t number, bool training)
        : job_(job), f_(*job->factorization), keys_(*job->keys), failure_(failure),
          number_(number), training_(training), rule_(rule_for(f_, job->step)),
          body_(train_for<Scattered>(f_)), deviation_(training ? f_.deviation : job->deviation),
          users_(f_.users, keys_.users, scrambled(f_.seed)),
          items_(f_.items, keys_.items, scrambled(f_.seed) + 1) {}

    void block(int32_t a, int32_t b) {
        users_.enter(a);
        items_.enter(b);
        loss = penalty = 0;
        int64_t block = (int64_t)a * f_.grid + b;
        for (int64_t k = keys_.start[block]; k < keys_.start[block + 1]; k++)
            if (!failure_.code && !cancelled(job_->cancel_mark))
                visit(keys_.pieces[k], keys_.pieces[k + 1].first);
    }

    double loss = 0, penalty = 0; // of the current block
    int64_t n_keys = 0, acquire_ns = 0, train_ns = 0, release_ns = 0;

private:
    void visit(const Piece &piece, int64_t end) {
        users_.needs = keys_.needs.data() + piece.needs;
        users_.n = piece.users;
        items_.needs = users_.needs + piece.users;
        items_.n = piece.items;
        if (int code = acquire()) {
            failure_.set(code_of_acquire(code), error_);
            return;
        }
        {
            Clock clock(train_ns);
            tusk_frame **next = frames_.data();
            for (Held *held : {&users_, &items_}) {
                keys_.key_a_weight ? copy_in(*held, next) : look_up(*held, next);
                if (training_)
                    draw(*held);
            }
            work(f_.ratings.data() + piece.first, end - piece.first);
            for (Held *held : {&users_, &items_})
                finish(*held);
            if (training_ && keys_.key_a_weight) {
                next = frames_.data();
                copy_out(users_, next);
                copy_out(items_, next);
            }
        }
        Clock clock(release_ns);
        job_->access->release(job_->access->frames, number_, frames_.data(),
                              (int64_t)frames_.size(), training_);
    }

    int acquire() {
        Clock clock(acquire_ns);
        asked_.clear();
        for (const Held *held : {&users_, &items_})
            held->each([&](int32_t, const Bundle &bundle) {
                for (int32_t k = 0; k < keys_.per_vector; k++)
                    asked_.push_back(bundle.key + (uint64_t)k);
            });
        widths_.assign(asked_.size(), (uint32_t)keys_.width);
        frames_.resize(asked_.size());
        error_[0] = 0;
        int code = job_->access->acquire(job_->access->frames, number_, asked_.data(),
                                         widths_.data(), (int64_t)asked_.size(), frames_.data(),
                                         is_cancelled, &job_->cancel_mark, error_);
        if (!code)
            n_keys += (int64_t)asked_.size();
        return code;
    }

    // Finds the address of each vector in its frame.
    void look_up(Held &held, tusk_frame **&frames) const {
        held.each([&](int32_t, const Bundle &bundle) {
            auto *weights = (float *)(*frames++)->weights;
            for (int32_t place = bundle.first; place < bundle.end; place++) {
                uint64_t row = held.keys->first_row + (uint64_t)held.side->id[place];
                uint64_t slot = row % (uint64_t)keys_.per_key;
                held.vectors[place - held.first] = weights + slot * (uint64_t)f_.stride;
            }
        });
    }

    void copy_in(Held &held, tusk_frame **&frames) const {
        held.room.resize((size_t)held.n * f_.stride + LINE);
        auto *v = (float *)(((uintptr_t)held.room.data() + 63) & ~(uintptr_t)63);
        held.each([&](int32_t, const Bundle &bundle) {
            held.vectors[bundle.first - held.first] = v;
            for (int32_t k = 0; k < f_.width(); k++)
                v[k] = *(const float *)(*frames++)->weights;
            std::fill(v + f_.width(), v + f_.stride, 0.0f);
            v += f_.stride;
        });
    }

    void copy_out(const Held &held, tusk_frame **&frames) const {
        held.each([&](int32_t, const Bundle &bundle) {
            const float *v = held.vectors[bundle.first - held.first];
            for (int32_t k = 0; k < f_.width(); k++)
                *(float *)(*frames++)->weights = v[k];
        });
    }

    // Draws initial values for vectors that no epoch has visited.
    void draw(const Held &held) const {
        held.each([&](int32_t number, const Bundle &bundle) {
            if (held.keys->drawn[number])
                return;
            held.keys->drawn[number] = 1;
            for (int32_t place = bundle.first; place < bundle.end; place++) {
                float *v = held.vectors[place - held.first];
                uint64_t state = state_of(held.seed, held.side->id[place]);
                for (int32_t k = 0; k < f_.width(); k++)
                    v[k] = start_of(f_, state, k);
            }
        });
    }

    void work(const Rating *ratings, int64_t n) {
        const Scattered users = users_.table(), items = items_.table();
        double sum = 0;
        if (training_) {
            sum = body_(ratings, n, users, items, f_.lines(), rule_, nullptr);
        } else {
            const double unit = f_.deviation / deviation_;
            const double shift = (f_.mean - job_->mean) / deviation_;
            for (const Rating *r = ratings; r < ratings + n; r++) {
                double e = r->value * unit + shift -
                           predicted(f_, users.at(r->user, 0), items.at(r->item, 0));
                sum += e * e;
            }
        }
        loss += 0.5 * sum * deviation_ * deviation_;
    }

    // Adds the penalty of the vectors for which this is the last piece of the epoch.
    void finish(const Held &held) {
        held.each([&](int32_t number, const Bundle &bundle) {
            if (--held.keys->left[number] || f_.l2 <= 0)
                return;
            for (int32_t place = bundle.first; place < bundle.end; place++)
                penalty += (double)held.side->count[place] *
                           penalty_of(f_, held.vectors[place - held.first], deviation_);
        });
    }

    tk_stored_factors *job_;
    const Factorization &f_;
    Keys &keys_;
    Failure &failure_;
    int32_t number_;
    bool training_;
    Rule rule_;
    Train<Scattered> body_;
    double deviation_;
    Held users_, items_;
    std::vector<uint64_t> asked_;
    std::vector<uint32_t> widths_;
    std::vector<tusk_frame *> frames_;
    char error_[TUSK_STORE_ERROR] = "";
};

int visit(tk_stored_factors *job, bool training) {
    const Factorization &f = *job->factorization;
    Failure failure;
    std::mutex lock;
    const int64_t blocks = (int64_t)f.grid * f.grid;
    std::vector<double> losses(blocks), penalties(blocks);
    job->n_keys = job->acquire_ns = job->train_ns = job->release_ns = 0;
    job->n_vectors = job->keys->vectors;
    for (KeySide *side : {&job->keys->users, &job->keys->items})
        side->left = side->visits;
    Turns turns(f, job->epoch);
    parallel_for(std::min(job->threads, f.grid), job->threads, [&](int64_t number) {
        Worker worker(job, failure, (int32_t)number, training);
        for (Turn turn; turns.next(turn, true); turns.finish(turn)) {
            // An exception would leave the other workers waiting for this block.
            int code = code_of([&]() -> int {
                worker.block(turn.users, turn.items);
                return TK_OK;
            });
            if (code)
                failure.set(code, "");
            losses[turn.block] = worker.loss;
            penalties[turn.block] = worker.penalty;
        }
        std::lock_guard guard(lock);
        job->n_keys += worker.n_keys;
        job->acquire_ns += worker.acquire_ns;
        job->train_ns += worker.train_ns;
        job->release_ns += worker.release_ns;
    });
    job->loss = total_of(losses);
    job->penalty = total_of(penalties);
    std::memcpy(job->error, failure.sentence, sizeof job->error);
    return failure.code                  ? failure.code.load()
           : cancelled(job->cancel_mark) ? (int)TK_CANCELLED
                                         : (int)TK_OK;
}

} // namespace
} // namespace tusk

extern "C" {

int tk_stored_factors_epoch(tk_stored_factors *job) {
    return tusk::code_of([&] { return tusk::visit(job, true); });
}

int tk_stored_factors_loss(tk_stored_factors *job) {
    return tusk::code_of([&] { return tusk::visit(job, false); });
}

double tk_factorization_mean(const tk_factorization *f) {
    return f->mean;
}

double tk_factorization_deviation(const tk_factorization *f) {
    return f->deviation;
}
}
