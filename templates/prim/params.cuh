//-- Struct Params: what a launch hands over, as params.def lists it.
//@ if params[#params].ctype == "TensorMap" then
// What TMA must know of a tensor; made by the launch, read by the hardware.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

//@ end
// The launch fills this block, whose C twin has the same layout. Strides are in elements.
struct Params {
//@ for _, p in ipairs(params) do
//@   local member = p.ctype .. (p.ctype:sub(-1) == "*" and "" or " ") .. p.name .. ";"
  $(p.note == "" and member or string.format("%-26s  // %s", member, p.note))
//@ end
};
static_assert(sizeof(Params) == $(param_bytes), "struct Params and its C twin differ");
