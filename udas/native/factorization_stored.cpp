// Epochs of matrix factorization over vectors that live in a store, reached by frames
// (kvstore/native/frames.h).
//
// A block of ratings, a range of users by a range of items, is one chunk: its vectors are acquired
// in one call, copied side by side into the worker's own memory, trained there by the kernel of
// models in memory, and copied back. Blocks that run side by side share no vector, so nothing is
// lost and nothing is torn, and threads change no bit. A block whose vectors do not fit into the
// worker's share of memory is trained in halves. Vectors are stored in the caller's units.
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>

#include "factorization_train.hpp"
#include "pool.hpp"

namespace tusk {
namespace {

// What ends an epoch early: the first worker's code, and its sentence.
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

// The vectors of one side that a chunk has, side by side in the order of their places.
struct Slice {
    const Side *side;
    uint64_t first_row; // of the side's ids among all of the model's
    uint64_t seed;      // of the factors' start
    int32_t first_place = 0;
    std::vector<int32_t> local; // of each place of the range; -1: not in the chunk
    std::vector<int32_t> places;
    std::vector<int64_t> count; // ratings of each in the chunk
    std::vector<float> room;
    float *vectors = nullptr;

    Slice(const Side &s, uint64_t row, uint64_t seed) : side(&s), first_row(row), seed(seed) {}

    void enter(int32_t range) {
        first_place = side->first[range];
        local.assign(side->first[range + 1] - first_place, -1);
    }
    void mark(int32_t place) { local[place - first_place] = 0; }
    void number(int32_t stride) {
        places.clear();
        for (size_t k = 0; k < local.size(); k++)
            if (local[k] >= 0) {
                local[k] = (int32_t)places.size();
                places.push_back(first_place + (int32_t)k);
            }
        count.assign(places.size(), 0);
        room.resize(places.size() * stride + LINE);
        vectors = (float *)(((uintptr_t)room.data() + 63) & ~(uintptr_t)63);
    }
    int32_t at(int32_t place) {
        int32_t found = local[place - first_place];
        count[found]++;
        return found;
    }
    void forget() {
        for (int32_t place : places)
            local[place - first_place] = -1;
    }
};

// One thread's work on one block after another.
class Worker {
public:
    Worker(tk_stored_factors *job, Failure &failure, int32_t number, bool training)
        : job_(job), f_(*job->factorization), failure_(failure), number_(number),
          training_(training), rule_(rule_for(f_, job->step)),
          body_(f_.biases ? train_for<true>(f_.lines()) : train_for<false>(f_.lines())),
          users_(f_.users, 0, scrambled(f_.seed)),
          items_(f_.items, (uint64_t)f_.users.n_ids, scrambled(f_.seed) + 1),
          root_(std::sqrt(f_.deviation)) {}

    void block(int32_t a, int32_t b) {
        users_.enter(a);
        items_.enter(b);
        int64_t block = (int64_t)a * f_.grid + b;
        loss = penalty = 0;
        part(f_.start[block], f_.start[block + 1]);
    }

    double loss = 0, penalty = 0; // of the block
    int64_t n_keys = 0, acquire_ns = 0, train_ns = 0, release_ns = 0;

private:
    bool ended() const { return failure_.code || cancelled(job_->cancel_mark); }

    void part(int64_t first, int64_t last) {
        if (first == last || ended())
            return;
        choose(first, last);
        int code = acquire();
        if (code == TUSK_CHUNK_TOO_LARGE && last - first > 1) {
            users_.forget();
            items_.forget();
            part(first, first + (last - first) / 2);
            part(first + (last - first) / 2, last);
            return;
        }
        if (code) {
            failure_.set(code_of_acquire(code), error_);
            return;
        }
        {
            Clock clock(train_ns);
            tusk_frame **next = frames_.data();
            read(users_, next);
            read(items_, next);
            work();
            if (training_) {
                next = frames_.data();
                write(users_, next);
                write(items_, next);
            }
        }
        Clock clock(release_ns);
        job_->access->release(job_->access->frames, number_, frames_.data(),
                              (int64_t)frames_.size(), training_);
        users_.forget();
        items_.forget();
    }

    // The vectors of some ratings, and the ratings with places in them.
    void choose(int64_t first, int64_t last) {
        const Rating *ratings = f_.ratings.data();
        for (int64_t k = first; k < last; k++) {
            users_.mark(ratings[k].user);
            items_.mark(ratings[k].item);
        }
        users_.number(f_.stride);
        items_.number(f_.stride);
        ratings_.resize(last - first);
        for (int64_t k = first; k < last; k++)
            ratings_[k - first] = {users_.at(ratings[k].user), items_.at(ratings[k].item),
                                   ratings[k].value};
    }

    int acquire() {
        Clock clock(acquire_ns);
        keys_.clear();
        for (const Slice *slice : {&users_, &items_})
            for (int32_t place : slice->places) {
                uint64_t row = slice->first_row + (uint64_t)slice->side->id[place];
                for (int32_t k = 0; k < per_vector(); k++)
                    keys_.push_back(row * (uint64_t)per_vector() + (uint64_t)k);
            }
        widths_.assign(keys_.size(), (uint32_t)(f_.width() / per_vector()));
        frames_.resize(keys_.size());
        error_[0] = 0;
        int code = job_->access->acquire(job_->access->frames, number_, keys_.data(),
                                         widths_.data(), (int64_t)keys_.size(), frames_.data(),
                                         is_cancelled, &job_->cancel_mark, error_);
        if (!code)
            n_keys += (int64_t)keys_.size();
        return code;
    }

    // Keys of a vector.
    int32_t per_vector() const { return job_->key_a_weight ? f_.width() : 1; }

    // Frames into vectors; weights that no training has touched are drawn, unless only read.
    template <class W> void read_vector(float *v, tusk_frame **frames, uint64_t state) const {
        const int32_t each = f_.width() / per_vector();
        for (int32_t j = 0; j < per_vector(); j++) {
            if (training_ && frames[j]->stamp == 0) {
                for (int32_t k = j * each; k < (j + 1) * each; k++)
                    v[k] = start_of(f_, state, k);
                continue;
            }
            const W *w = (const W *)frames[j]->weights;
            scaled(w, 1 / root_, each, v + j * each);
            if (f_.biases && j == 0)
                v[0] = (float)(w[0] / f_.deviation);
        }
        std::fill(v + f_.width(), v + f_.stride, 0.0f);
    }

    template <class W> void write_vector(const float *v, tusk_frame **frames) const {
        const int32_t each = f_.width() / per_vector();
        for (int32_t j = 0; j < per_vector(); j++) {
            W *w = (W *)frames[j]->weights;
            scaled(v + j * each, root_, each, w);
            if (f_.biases && j == 0)
                w[0] = (W)(v[0] * f_.deviation);
            frames[j]->stamp = 1;
        }
    }

    template <class From, class To>
    static void scaled(const From *__restrict from, double by, int32_t n, To *__restrict to) {
        for (int32_t k = 0; k < n; k++)
            to[k] = (To)(from[k] * by);
    }

    void read(Slice &slice, tusk_frame **&frames) const {
        for (size_t n = 0; n < slice.places.size(); n++, frames += per_vector()) {
            float *v = slice.vectors + n * f_.stride;
            uint64_t state = state_of(slice.seed, slice.side->id[slice.places[n]]);
            job_->access->weight_size == 8 ? read_vector<double>(v, frames, state)
                                           : read_vector<float>(v, frames, state);
        }
    }

    void write(const Slice &slice, tusk_frame **&frames) const {
        for (size_t n = 0; n < slice.places.size(); n++, frames += per_vector()) {
            const float *v = slice.vectors + n * f_.stride;
            job_->access->weight_size == 8 ? write_vector<double>(v, frames)
                                           : write_vector<float>(v, frames);
        }
    }

    void work() {
        const int64_t n = (int64_t)ratings_.size();
        double sum = 0;
        if (training_) {
            sum = body_(ratings_.data(), n, users_.vectors, items_.vectors, f_.lines(), rule_);
        } else {
            double shift = (f_.mean - job_->mean) / f_.deviation;
            for (const Rating &r : ratings_) {
                const float *p = users_.vectors + (int64_t)r.user * f_.stride;
                const float *q = items_.vectors + (int64_t)r.item * f_.stride;
                double e = r.value + shift - predicted(f_, p, q);
                sum += e * e;
            }
        }
        loss += 0.5 * sum * f_.deviation * f_.deviation;
        for (const Slice *slice : {&users_, &items_})
            for (size_t k = 0; f_.l2 > 0 && k < slice->places.size(); k++)
                penalty += 0.5 * f_.l2 * (double)slice->count[k] *
                           square(f_, slice->vectors + k * f_.stride);
    }

    tk_stored_factors *job_;
    const Factorization &f_;
    Failure &failure_;
    int32_t number_;
    bool training_;
    Rule rule_;
    Train body_;
    Slice users_, items_;
    double root_;
    std::vector<Rating> ratings_;
    std::vector<uint64_t> keys_;
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
}
