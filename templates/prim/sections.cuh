// Under a mask units of work, tiles of rows or passes over keys, differ in length. They are taken in
// sections of heads whose K and V fit L2 together; in a section the longest of all its heads come
// first. Needs place.cuh, and kKeysInL2.
struct Sections {
  unsigned units, heads, section;  // of a head; all; at most in a section

  // The number of unit t of the section that begins at head `first`: heads come slowest.
  __device__ __forceinline__ unsigned index(unsigned first, unsigned t) const {
    const unsigned here = count(first);
    return (first + t % here) * units + t / here;
  }
  __device__ __forceinline__ unsigned count(unsigned first) const {
    return min(section, heads - first);
  }
};

// `share` heads beside each other read the same K and V. On a grid that stays sections are whole
// rounds to and fro, which are even; an odd one more gives some blocks all the longer units.
template <bool kStays>
__device__ __forceinline__ Sections sections_of(unsigned units, unsigned heads, unsigned share,
                                                int len_k) {
  const unsigned most = max(kKeysInL2 / max(len_k, 1), 1) * share;
  Sections s;
  s.units = units, s.heads = heads;
  s.section = ceil_div(heads, ceil_div(heads, most));
  if (kStays) {
    const unsigned both = 2 * gridDim.x, times = max((s.section * units + gridDim.x) / both, 1);
    s.section = min(s.section, max(times * both / units, 1));
  }
  return s;
}

// The way of a block that stays through the sections: unit t of the one that begins at head `first`.
// Rounds go to and fro over the blocks, and each section begins where the last one ended: so the
// blocks have equally much to do, within about 1 %.
struct Walk {
  unsigned first, t, round, begin;

  __device__ __forceinline__ bool next(const Sections &s) {
    const unsigned blocks = gridDim.x, back = blocks - 1;
    for (; first < s.heads; first += s.section, round = 0) {
      const unsigned all = s.count(first) * s.units, mine = (blockIdx.x + blocks - begin) % blocks;
      t = round * blocks + (round % 2 ? back - mine : mine);
      round++;
      if (t < all) return true;
      begin = (begin + all) % blocks;
    }
    return false;
  }
};
