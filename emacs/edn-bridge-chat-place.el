;;; edn-bridge-chat-place.el --- How much of a session a chat shows  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Events say at which offset of the session's journal they stand.  From them
;; a chat knows its place: up to which entry all is shown.  A chat that comes
;; back names its place, and is told the rest.

;;; Code:

(require 'edn-bridge-chat-state)

(defvar-local edn-bridge-chat--place nil
  "How much of the session's journal is shown: an offset and an entry's id.
A cons; the id may be nil.  Nil means that the place is not known.")

(defvar-local edn-bridge-chat--due nil
  "Entries after `edn-bridge-chat--place' that came, in order.
Lists of an offset, an id, and non-nil where an event that shows the entry
is still to come.")

(defvar-local edn-bridge-chat-doubtful nil
  "Ids of entries that may be shown although that is not known for sure.")

(defun edn-bridge-chat--lose-place ()
  "Note that what is shown may have gaps: coming back, it is built again."
  (setq edn-bridge-chat--place nil
        edn-bridge-chat--due nil))

(defun edn-bridge-chat-doubt ()
  "Expect to be told again of entries whose events did not come yet."
  (setq edn-bridge-chat-doubtful (mapcar #'cadr edn-bridge-chat--due)
        edn-bridge-chat--due nil))

(defconst edn-bridge-chat--due-limit 64
  "After how many entries no event is waited for any more.")

(defun edn-bridge-chat--note-place (topic data)
  "Note what DATA of an event of TOPIC says of how much is shown."
  (let ((offset (plist-get data :offset)))
    (when (and (integerp offset)
               (equal (plist-get data :session-id) edn-bridge-chat--session-id))
      (cond
       ((equal topic "session/rehydrated")
        (setq edn-bridge-chat--place (list offset)
              edn-bridge-chat--due nil))
       ((equal topic "session/entry")
        (let* ((entry (plist-get data :entry))
               (due (list offset (plist-get entry :id)
                          (and (not edn-bridge-chat-following)
                               (eq (plist-get entry :type) :message)
                               (member (edn-bridge-chat-word
                                        (plist-get (plist-get entry :message)
                                                   :role))
                                       '("user" "assistant" "tool"))
                               t))))
          (setq edn-bridge-chat--due
                (append edn-bridge-chat--due (list due)))))
       ((equal topic "session/synced")
        (dolist (due edn-bridge-chat--due)
          (setf (nth 2 due) nil)))
       ((plist-get data :entry-id)
        (when-let ((due (seq-find (lambda (due)
                                    (equal (nth 1 due)
                                           (plist-get data :entry-id)))
                                  edn-bridge-chat--due)))
          (setf (nth 2 due) nil)))
       ((and (null edn-bridge-chat--due)
             (not edn-bridge-chat-following)
             (> offset (or (car edn-bridge-chat--place) -1)))
        (setq edn-bridge-chat--place (list offset))))
      (while (and edn-bridge-chat--due
                  (or (not (nth 2 (car edn-bridge-chat--due)))
                      (> (length edn-bridge-chat--due)
                         edn-bridge-chat--due-limit)))
        (pcase-let ((`(,offset ,id ,_) (pop edn-bridge-chat--due)))
          (setq edn-bridge-chat--place (cons offset id)))))))

(provide 'edn-bridge-chat-place)

;;; edn-bridge-chat-place.el ends here
