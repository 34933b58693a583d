  // Which rows, and which keys they see
  const Place place = place_of(params, blockIdx.x, batch, heads_q, heads_kv, len_q, len_k, total_q,
                               total_k);
  if (place.row0 >= place.row1) return;
  const int i0 = place.row0 / kGroup, i1 = (place.row1 - 1) / kGroup + 1;  // queries
  const MaskBounds bounds =
      mask_bounds(window_left, window_right, bottom_right, place.len_q, place.len_k);
  int j_begin, j_end;
  key_range(bounds, i0, i1, place.len_k, j_begin, j_end);
