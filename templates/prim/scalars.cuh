//-- Run-time scalars as locals, so that a kernel's body uses the same bare name whether a scalar is
//-- pinned (then it is a constexpr of the constants block) or not.
//@ for _, p in ipairs(params) do
//@   if p.pinnable and not p.pinned then
  const $(p.ctype) $(p.name) = params.$(p.name);
//@   end
//@ end
