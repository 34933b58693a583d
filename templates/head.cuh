//-- head.cuh - the head of every kernel: data sheet, constants block, element type, struct Params
//-- and struct Smem. Everything in it comes from the planner's values, so that the text of two
//-- kernels of one op differs here and in the parts that were chosen, nowhere else.
//--
//-- A tab stop for notes: `text` filled up to `width`, then the note, if there is one.
//@ local function noted(text, width, note)
//@   if note == "" then return text end
//@   return string.format("%-" .. width .. "s  // %s", text, note)
//@ end
//@ for _, line in ipairs(sheet) do
// $(line)
//@ end

//@ for _, c in ipairs(constants) do
$(noted("constexpr " .. c.type .. " " .. c.name .. " = " .. c.value .. ";", 34, c.note))
//@ end

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

//@ include("type/" .. dtype.q .. ".cuh")

//@ include("prim/params.cuh")

//@ if #ledger > 0 then
// Shared memory, as in the ledger above.
struct Smem {
//@   for _, piece in ipairs(ledger) do
//@     local size = string.format("[%d][%d]", piece.rows, piece.columns)
//@     local ctype = string.format("alignas(%d) %s ", piece.align, piece.ctype)
  $(noted(ctype .. piece.name .. size .. ";", 32, piece.note))
//@   end
};
static_assert(sizeof(Smem) == kSmemBytes, "struct Smem and the ledger differ");
//@ end
