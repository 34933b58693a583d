//-- Where a kernel begins before what is ahead of it in the stream has ended (recipe field early): no
//-- thread touches a tensor before this line, and what comes behind may begin from here on.
//@ if early then
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
//@ end
