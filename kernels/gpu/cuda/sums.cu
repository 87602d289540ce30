// Adds up the sums of a group's chunks. Each group with several chunks has one block per 32 sums.
// 32 warps add every 32nd chunk each, then one warp adds their results, always in the same order.
extern "C" __global__ void __launch_bounds__(1024)
add_chunks(const double *partial, const Span *spans, int width, double *out) {
    __shared__ double sums[32][33];
    const Span s = spans[blockIdx.x];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int k = blockIdx.y * 32 + lane;
    double total = 0.0;
    if (k < width) {
#pragma unroll 16
        for (int64 c = s.first + warp; c < s.last; c += 32)
            total += partial[c * width + k];
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && k < width) {
        total = 0.0;
        for (int other = 0; other < 32; other++)
            total += sums[other][lane];
        out[s.group * width + k] = total;
    }
}
