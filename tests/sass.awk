# sass.awk - nvdisasm's listing of a kernel of family wgmma or middle -> a line for each loop over keys: what of the softmax
# stands before the wait for P V, beside which it runs, and what after it. A loop waits twice: first until one
# group of products is left under way, which is P V, then for that.
function report() {
  if (waits != 2) return
  printf "%s  loop %d: before | after the wait for P V: maxima %d | %d, exponentials %d | %d, conversions %d | %d\n",
    name, ++loops, maxima[1], maxima[2], powers[1], powers[2], rounded[1], rounded[2]
}
function clear() {
  waits = 0
  maxima[1] = maxima[2] = powers[1] = powers[2] = rounded[1] = rounded[2] = 0
}
BEGIN { clear() }
/HGMMA/ { if (waits) { report(); clear() } }
/WARPGROUP.DEPBAR.LE gsb0, 0x1/ { clear(); waits = 1 }
/WARPGROUP.DEPBAR.LE gsb0, 0x0/ { if (waits == 1) waits = 2; else { report(); clear() } }
/FMNMX/ { maxima[waits]++ }
/MUFU.EX2/ { powers[waits]++ }
/F2FP/ { rounded[waits]++ }
