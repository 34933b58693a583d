/* template_files.h - which templates belong to an op; shared by the digest and by include. */
#ifndef ATTUNE_TEMPLATE_FILES_H
#define ATTUNE_TEMPLATE_FILES_H

/* 1 when an op may include templates/<path>: its own folder, and whatever is in no op's folder but
 * embed/, which is C. */
int attune__template_of_op(const char *path, int op);

#endif
