// What a thread block of a GDN kernel may take of an SM.
#pragma once

namespace tare::engine::gdn {

constexpr int kThreadsASlice[] = {0, 512, 256};  // by slices a head: one thread a channel of q, k, v, z

constexpr int kLeastSharedBytes = 99 * 1024;  // that every device from sm_80 to sm_120 gives a block
// So much that a Hopper SM takes one thread block of a pass, and a product's block beside it: left alone, blocks of a
// pass meet on one SM while others idle.
constexpr int kTwoSliceSharedBytes = 114 * 1024;
// Whether a device of the architecture compiled for can have two slices at all: 8.x has no clusters, and 12.x no more
// than kLeastSharedBytes, so gdn_slices_of_device never says so there. Half the time of compiling is in those
// instances.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
constexpr bool kTwoSlicesThere = false;
#else
constexpr bool kTwoSlicesThere = true;
#endif
// Of a verify in the chunk form. With 4 KB more an output projection's block, which asks for half an SM too, finds no
// room beside it; two blocks of a pass do not meet for want of registers.
constexpr int kVerifySharedBytes = 110 * 1024;

// With fewer the sums of the recurrence share registers and wait for each other. A block of a product (27,500
// registers) fits beside two slices' 256 threads; 512 threads fit on an SM.
constexpr int kTwoSliceRegisters = 144;
constexpr int kOneSliceRegisters = 128;

}  // namespace tare::engine::gdn
