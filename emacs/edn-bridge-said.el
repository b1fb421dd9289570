;;; edn-bridge-said.el --- What is said to a session  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The messages of users on their way into the conversation.  The bridge
;; tells of each one when it is delivered, whoever sent it; then, and only
;; then, it has its place in the transcript, which is the journal's.
;;
;; What is sent from here while no turn is running is delivered at once, and
;; so it is shown at once.  What is sent while one is running waits, in
;; lines above the draft.  The request that it was sent with tells it from
;; the same words of another client.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)

(cl-defstruct (edn-bridge-said (:copier nil))
  "Something that was sent from this chat, until it is delivered."
  text
  behavior                   ; "steer" or "queue" where it waits, else nil
  session                    ; id of the session that it is for
  conn id                    ; connection and id of its request
  op images key              ; what it is sent by and with, and its key
  accepted                   ; non-nil once the bridge has it
  start end)                 ; markers around it in the transcript, or nil

(defvar-local edn-bridge-said--pending nil
  "What was sent from this chat and is not delivered yet, in order.
An `edn-bridge-said' each.")

(defvar-local edn-bridge-said--command nil
  "The slash command that was sent last, an `edn-bridge-said', or nil.
The bridge may make a message of it.")

(defvar-local edn-bridge-said--doubtful nil
  "What got no answer before its connection ended, last first.
The bridge may deliver it as what another client sent.")

(defvar-local edn-bridge-said--others 0
  "How many messages wait that were not sent from this chat.")

(defvar-local edn-bridge-said--told nil
  "Non-nil if the bridge itself tells the queue.
Then only that is shown here which it does not have yet.")

;;;; What is sent from here

(defun edn-bridge-said-show (text &optional behavior images command)
  "Show TEXT, which is being sent, and return an object for it.
With BEHAVIOR, \"steer\" or \"queue\", it is shown above the draft until it
is delivered.  IMAGES, property lists of `:mime-type' and `:data', are shown
below it.  COMMAND non-nil means that it is a slash command."
  (edn-bridge-chat-settle (not (edn-bridge-chat-running-p)))
  (let ((said (make-edn-bridge-said :text text :behavior behavior
                                    :session edn-bridge-chat--session-id
                                    :conn edn-bridge-chat--conn)))
    (if behavior
        (progn
          (edn-bridge-said--add said)
          (edn-bridge-said--show-waiting))
      (edn-bridge-said--insert
       said
       (list :content
             (vconcat (list (list :type :text :text text))
                      (mapcar (lambda (image) (append '(:type :image) image))
                              images))))
      (if command
          (setq edn-bridge-said--command
                (edn-bridge-said--instead-of edn-bridge-said--command said))
        (edn-bridge-said--add said)))
    said))

(defun edn-bridge-said-again (said)
  "Note that SAID is sent again: its place is where the bridge delivers it."
  (if (and (edn-bridge-said-start said)
           ;; A transcript that was built again has nothing between them.
           (< (edn-bridge-said-start said) (edn-bridge-said-end said)))
      (edn-bridge-said--remove said)
    (edn-bridge-said--let-go said))
  (setf (edn-bridge-said-conn said) edn-bridge-chat--conn)
  (unless (memq said edn-bridge-said--pending)
    (edn-bridge-said--add said))
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said-note-known (said)
  "Note that the bridge had SAID already: it tells the rest of it itself."
  (edn-bridge-said--forget said)
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said--add (said)
  "Add SAID to what is pending."
  (setq edn-bridge-said--pending
        (append edn-bridge-said--pending (list said))))

(defun edn-bridge-said--instead-of (old said)
  "Return SAID, and let go of the markers of OLD, which may be nil."
  (when old
    (edn-bridge-said--let-go old))
  said)

(defun edn-bridge-said--insert (said message)
  "Add MESSAGE, which shows SAID, to the transcript."
  (let ((start (edn-bridge-transcript-end)))
    (edn-bridge-messages-insert-user message nil)
    (setf (edn-bridge-said-start said) (copy-marker start t)
          (edn-bridge-said-end said) (copy-marker
                                      (edn-bridge-transcript-end)))))

(defun edn-bridge-said-wait (said behavior)
  "Have SAID wait above the draft with BEHAVIOR: a turn is running after all."
  (edn-bridge-said--remove said)
  (setf (edn-bridge-said-behavior said) behavior)
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said-note-accepted (said)
  "Note that the bridge has SAID."
  (setf (edn-bridge-said-accepted said) t)
  (when edn-bridge-said--told
    (edn-bridge-said--show-waiting)))

(defun edn-bridge-said-note-refused (said keep)
  "Note that the bridge did not take SAID; with KEEP, it is still shown.
The symbol `again' for KEEP means that it is sent again, and moves then."
  (edn-bridge-said--forget said)
  (pcase keep
    ('nil (edn-bridge-said--remove said))
    ('again (setq edn-bridge-said--doubtful
                  (seq-take (cons said edn-bridge-said--doubtful) 8)))
    (_ (edn-bridge-said--let-go said)))
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said-drop-steering ()
  "Let go of the queue to steer the turn: the bridge has given it back."
  (setq edn-bridge-said--pending
        (cl-remove "steer" edn-bridge-said--pending
                   :key #'edn-bridge-said-behavior :test #'equal))
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said--forget (said)
  "Let SAID be pending no more."
  (setq edn-bridge-said--pending (delq said edn-bridge-said--pending))
  (when (eq said edn-bridge-said--command)
    (setq edn-bridge-said--command nil)))

(defun edn-bridge-said--let-go (said)
  "Let go of the markers of SAID, whose text stays where it is."
  (when (edn-bridge-said-start said)
    (set-marker (edn-bridge-said-start said) nil)
    (set-marker (edn-bridge-said-end said) nil)
    (setf (edn-bridge-said-start said) nil
          (edn-bridge-said-end said) nil)))

(defun edn-bridge-said--remove (said)
  "Delete what shows SAID in the transcript, where something does."
  (when-let ((start (edn-bridge-said-start said)))
    (edn-bridge-transcript-edit
      (delete-region start (edn-bridge-said-end said))
      (goto-char start)
      ;; What stood below it began with an empty line.
      (when (and (bobp)
                 (< (point) (edn-bridge-transcript-end))
                 (eq (char-after) ?\n))
        (delete-char 1)))
    (edn-bridge-said--let-go said)))

;;;; What is delivered

(defun edn-bridge-said--on-message (data)
  "Show the message that DATA of `user/message' tells the delivery of."
  (when (edn-bridge-chat-mine-p data)
    (edn-bridge-chat-settle 'end)
    (let* ((entry (plist-get data :entry-id))
           (said (edn-bridge-said--find data))
           (sender (and (not said) (edn-bridge-said--sender data))))
      (when (and entry sender)
        (edn-bridge-messages-note-sender entry sender))
      (when said
        (setq edn-bridge-said--doubtful (delq said edn-bridge-said--doubtful))
        (edn-bridge-said--forget said))
      (cond
       ;; The transcript was rebuilt meanwhile.
       ((edn-bridge-messages-shown-p entry)
        (when said
          (edn-bridge-said--remove said)))
       ((and said (edn-bridge-said--in-place-p said data))
        (when entry
          (edn-bridge-transcript-edit
            (put-text-property (edn-bridge-said-start said)
                               (edn-bridge-said-end said)
                               'edn-bridge-entry entry)))
        (edn-bridge-said--let-go said))
       (t
        (when said
          (edn-bridge-said--remove said))
        (edn-bridge-messages-insert-user
         (if sender (append (list :sender sender) data) data) entry)))
      (when (and said (edn-bridge-said-behavior said))
        (edn-bridge-said--show-waiting)))))

(defun edn-bridge-said--find (data)
  "Return what was sent from here and is delivered by DATA, or nil."
  (let ((id (edn-bridge-rpc-event-id edn-bridge-chat--conn)))
    (cond
     (id
      (cl-find-if (lambda (said)
                    (and (equal id (edn-bridge-said-id said))
                         (eq edn-bridge-chat--conn
                             (edn-bridge-said-conn said))))
                  (if edn-bridge-said--command
                      (cons edn-bridge-said--command edn-bridge-said--pending)
                    edn-bridge-said--pending)))
     ;; It waited when the program was started again.
     ((equal (edn-bridge-chat-word
              (plist-get (plist-get data :from) :kind))
             "earlier")
      (let ((text (edn-bridge-messages-text data)))
        (or (cl-find-if (lambda (said)
                          (and (edn-bridge-said-accepted said)
                               (equal text (edn-bridge-said-text said))))
                        edn-bridge-said--pending)
            (edn-bridge-said--find-doubtful data))))
     (t
      (edn-bridge-said--find-doubtful data)))))

(defun edn-bridge-said--find-doubtful (data)
  "Return what got no answer and may be what DATA delivers, or nil."
  (cl-find (edn-bridge-messages-text data) edn-bridge-said--doubtful
           :key #'edn-bridge-said-text :test #'equal))

(defun edn-bridge-said--in-place-p (said data)
  "Return non-nil if SAID, which DATA delivers, stands where it belongs.
That is at the end of the transcript, with the words that the bridge has."
  (and (edn-bridge-said-end said)
       (= (edn-bridge-said-end said) (edn-bridge-transcript-end))
       (equal (edn-bridge-said-text said) (edn-bridge-messages-text data))))

(defun edn-bridge-said--sender (data)
  "Return the name of who sent the message of DATA, or nil for this chat."
  (let* ((from (plist-get data :from))
         (sender (plist-get data :sender)))
    (cond
     ((and (stringp sender) (not (equal sender ""))) sender)
     ((edn-bridge-rpc-event-id edn-bridge-chat--conn) nil)
     (t
      (pcase (edn-bridge-chat-word (plist-get from :kind))
        ("client" (let ((name (plist-get from :client)))
                    (if (and (stringp name) (not (equal name "")))
                        name
                      "another client")))
        ("runtime" "the bridge"))))))

;;;; The queue

(defun edn-bridge-said--waiting ()
  "Return the queued messages, in order."
  (cl-remove nil edn-bridge-said--pending :key #'edn-bridge-said-behavior))

(defun edn-bridge-said-note-told (texts)
  "Note that the bridge tells the queue: the messages TEXTS."
  (setq edn-bridge-said--told t)
  (dolist (said (edn-bridge-said--waiting))
    ;; The answer to its request may come later than this; long texts are
    ;; told in part.
    (when (seq-some (lambda (text)
                      (and (stringp text)
                           (not (equal text ""))
                           (string-prefix-p text (edn-bridge-said-text said))))
                    texts)
      (setf (edn-bridge-said-accepted said) t)))
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said-note-returned (text)
  "Note that the bridge gave TEXT back, which waited."
  (when-let ((said (seq-find (lambda (said)
                               (equal text (edn-bridge-said-text said)))
                             (edn-bridge-said--waiting))))
    (edn-bridge-said--forget said)
    (edn-bridge-said--show-waiting)))

(defun edn-bridge-said--on-session (data)
  "Compare the queue with its length, as DATA of `session/updated' tells.
Another client can send messages, and take back those that steer."
  (let ((count (plist-get data :pending-message-count)))
    (when (and (integerp count) (edn-bridge-chat-mine-p data))
      (let* ((accepted (cl-remove nil (edn-bridge-said--waiting)
                                  :key #'edn-bridge-said-accepted))
             (gone (- (length accepted) count)))
        (when (> gone 0)
          (mapc #'edn-bridge-said--forget
                (seq-take (cl-stable-sort
                           (copy-sequence accepted)
                           (lambda (a b)
                             (and (equal (edn-bridge-said-behavior a) "steer")
                                  (not (equal (edn-bridge-said-behavior b)
                                              "steer")))))
                          gone)))
        (unless (and (<= gone 0)
                     (= (- gone) edn-bridge-said--others))
          (setq edn-bridge-said--others (max 0 (- gone)))
          (edn-bridge-said--show-waiting))))))

(defun edn-bridge-said--on-rebuild (_data)
  "Keep the queue for this session only; the rest is in the transcript."
  (when edn-bridge-said--command
    (edn-bridge-said--let-go edn-bridge-said--command)
    (setq edn-bridge-said--command nil))
  (mapc #'edn-bridge-said--let-go edn-bridge-said--pending)
  (setq edn-bridge-said--others 0
        edn-bridge-said--pending
        (cl-remove-if-not (lambda (said)
                            (equal (edn-bridge-said-session said)
                                   edn-bridge-chat--session-id))
                          (edn-bridge-said--waiting)))
  (edn-bridge-said--show-waiting))

(defun edn-bridge-said--show-waiting ()
  "Show above the draft the queue."
  (edn-bridge-chat-set-status
   'edn-bridge-said
   (append
    (mapcar (lambda (said)
              (concat (if (equal (edn-bridge-said-behavior said) "queue")
                          "For after the turn: "
                        "For the running turn: ")
                      (truncate-string-to-width
                       (replace-regexp-in-string
                        "[ \t\n]+" " " (edn-bridge-said-text said))
                       60 nil nil "…")))
            (if edn-bridge-said--told
                (cl-remove-if #'edn-bridge-said-accepted
                              (edn-bridge-said--waiting))
              (edn-bridge-said--waiting)))
    (pcase (if edn-bridge-said--told 0 edn-bridge-said--others)
      (0 nil)
      (1 '("1 message from elsewhere waits"))
      (count (list (format "%d messages from elsewhere wait" count)))))))

;;;; Registering

(edn-bridge-chat-handle "user/message" #'edn-bridge-said--on-message)
(edn-bridge-chat-handle "session/updated" #'edn-bridge-said--on-session)
(add-hook 'edn-bridge-chat-rebuild-functions #'edn-bridge-said--on-rebuild)

(provide 'edn-bridge-said)

;;; edn-bridge-said.el ends here
