/* Saving a session to a file, and going on from one. */
#ifndef CR_SAVE_H
#define CR_SAVE_H

#include "session/session.h"

/* See cera_session_save and cera_session_load. */
cera_status cr_session_save(cr_session *session, const char *path, cera_error *err);
cera_status cr_session_load(cr_session *session, const char *path, cera_error *err);

#endif
