;;; edn-bridge-interact.el --- Questions of the agent to the user  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The agent asks: for a text, a choice, an approval, a login.  A question
;; is shown in the chat, with buttons and keys; it waits there and takes
;; neither the keyboard nor the minibuffer.  Whatever reads from the
;; minibuffer does so because a button was pressed.
;;
;; A chat shows the questions of its session, and of the subagents of that.
;; Those of other sessions are one line above the draft, which leads there.
;;
;; An answer belongs to a question that was seen: it is taken half a second
;; after the question was drawn.  What was typed before was not meant for it.
;;
;; Several frontends may be asked at once.  The first answer counts; the
;; others see that the question was answered.
;;
;; A kind of question is a row of `edn-bridge-interact--kinds': how it is
;; told, and which answers there are.  The rows are in
;; edn-bridge-interact-kinds.el.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-tools)
(require 'edn-bridge-buffers)
(require 'edn-bridge-files)

(defvar edn-bridge-interact--kinds nil
  "Kinds of questions.
Each is a list of the name and functions of the payload: one that returns
the title (it also gets the name), one that inserts what there is to
know, and one that returns the answers, lists of a label and a function of
the question.")

(defvar edn-bridge-interact--label nil
  "Label of the answer that is being given, or nil.")

(defvar edn-bridge-interact-functions nil
  "Abnormal hook run in a chat buffer when a question comes or goes.
The functions are called with the question's title, or nil when one is
settled.")

(defvar edn-bridge-interact-shown-functions nil
  "Abnormal hook run in a chat buffer that shows a question, with that.")

;;;; Questions

(cl-defstruct (edn-bridge-interact--question (:copier nil))
  "A question that waits for an answer."
  id kind payload conn
  agent                       ; label of the asking subagent, or nil
  session                     ; id of the asking session, unless it is the chat's
  root                        ; id of the session that it works for, or its own
  drawn                       ; time at which it came onto the screen, or nil
  login                       ; non-nil if it is a login's
  start end                   ; markers around its text
  chosen                      ; label of the answer that was sent, or nil
  edited                      ; buffers in which what is proposed is edited
  answer)                     ; function of status, value and note

(defvar-local edn-bridge-interact--questions nil
  "Questions of this chat that wait, the oldest first.")

(defvar-local edn-bridge-interact--elsewhere nil
  "Questions of other sessions that wait, the oldest first.
They are not in the transcript.")

(defun edn-bridge-interact-pending ()
  "Return how many questions of this chat wait for an answer."
  (length edn-bridge-interact--questions))

(defun edn-bridge-interact-hidden-p ()
  "Return non-nil if a question of this chat waits that no window shows."
  (let ((windows (get-buffer-window-list nil nil 'visible)))
    (seq-some (lambda (question)
                (let ((start (edn-bridge-interact--question-start question))
                      (end (edn-bridge-interact--question-end question)))
                  (not (and start
                            (seq-some
                             (lambda (window)
                               (or (pos-visible-in-window-p start window)
                                   ;; Point is shown, at the latest by the
                                   ;; next redisplay.
                                   (and end
                                        (<= start (window-point window) end))))
                             windows)))))
              edn-bridge-interact--questions)))

(defun edn-bridge-interact--all ()
  "Return all questions that this chat was asked and that wait."
  (append edn-bridge-interact--questions edn-bridge-interact--elsewhere))

(defun edn-bridge-interact--find (id)
  "Return the waiting question ID, or nil."
  (seq-find (lambda (question)
              (equal id (edn-bridge-interact--question-id question)))
            (edn-bridge-interact--all)))

(defun edn-bridge-interact--at-point ()
  "Return the waiting question at point, or else the only one of the chat.
Without one at point, fail unless exactly one waits, and all of it is on the
screen."
  (let ((only (car edn-bridge-interact--questions)))
    (or (and (get-text-property (point) 'edn-bridge-question)
             (edn-bridge-interact--find
              (get-text-property (point) 'edn-bridge-question)))
        (cond
         ((null only)
          (user-error "No question is waiting"))
         ((cdr edn-bridge-interact--questions)
          (user-error "Several questions wait; %s goes to one"
                      (substitute-command-keys "\\[edn-bridge-interact-next]")))
         ((not (edn-bridge-interact--on-screen-p only))
          (user-error "The question is not wholly on the screen; %s goes there"
                      (substitute-command-keys "\\[edn-bridge-interact-next]")))
         (only)))))

;;;; What was seen

(defconst edn-bridge-interact--settling 0.5
  "Seconds after a question was drawn in which no answer is meant for it.")

(defvar edn-bridge-interact--clock #'float-time
  "Function that returns the time in seconds.")

(defun edn-bridge-interact--on-screen-p (question)
  "Return non-nil if all of QUESTION is seen in the selected window.
Where nothing is drawn, it is."
  (or noninteractive
      (let* ((buttons (edn-bridge-interact--question-start question))
             (end (edn-bridge-interact--question-end question))
             (top (edn-bridge-interact--beginning (marker-position buttons))))
        (and (eq (window-buffer) (current-buffer))
             (pos-visible-in-window-p top)
             (pos-visible-in-window-p (max top (1- end)))))))

(defun edn-bridge-interact--on-redisplay (_window)
  "Note that the questions of this chat are drawn now."
  (dolist (question edn-bridge-interact--questions)
    (unless (edn-bridge-interact--question-drawn question)
      (setf (edn-bridge-interact--question-drawn question)
            (funcall edn-bridge-interact--clock)))))

(defun edn-bridge-interact--check-seen (question)
  "Fail unless QUESTION was on the screen before its answer was typed.
Where nothing is drawn, a program answers."
  (let ((drawn (edn-bridge-interact--question-drawn question)))
    (unless (or noninteractive
                (and drawn
                     (<= edn-bridge-interact--settling
                         (- (funcall edn-bridge-interact--clock) drawn))))
      (user-error "The question has only just appeared; answer it again"))))

;;;; Events

(defun edn-bridge-interact--root (data)
  "Return the id of the session to which the question in DATA belongs, or nil."
  (or (plist-get data :root-session-id)
      (if (plist-get data :subagent-id)
          (plist-get data :parent-session-id)
        (plist-get data :session-id))))

(defun edn-bridge-interact--here-p (question)
  "Return non-nil if QUESTION belongs to the session that the chat shows."
  (edn-bridge-chat-mine-p
   (list :session-id (edn-bridge-interact--question-root question))))

(defun edn-bridge-interact--take (question)
  "Show QUESTION in the chat, or above the draft that its session asks."
  (if (edn-bridge-interact--here-p question)
      (edn-bridge-interact--show question)
    (setq edn-bridge-interact--elsewhere
          (append edn-bridge-interact--elsewhere (list question)))
    (edn-bridge-interact--announce-elsewhere)
    (run-hook-with-args
     'edn-bridge-interact-functions
     ;; The session's own chat tells the user, where there is one.
     (and (null (edn-bridge-interact--chat-of
                 (edn-bridge-interact--question-root question)))
          (edn-bridge-interact--name question)))))

(defun edn-bridge-interact--on-requested (data)
  "Take the question in DATA of `interaction/requested'."
  (let ((id (plist-get data :interaction-id))
        (conn edn-bridge-chat--conn)
        (chat (current-buffer)))
    (if-let ((question (edn-bridge-interact--find id)))
        (edn-bridge-interact--ask-on question conn)
      (edn-bridge-interact--take
       (make-edn-bridge-interact--question
        :id id
        :root (edn-bridge-interact--root data)
        :kind (edn-bridge-chat-word (plist-get data :kind))
        :payload (plist-get data :payload)
        :conn conn
        :agent (edn-bridge-interact--agent data)
        :session (and (not (edn-bridge-chat-mine-p data))
                      (plist-get data :session-id))
        :login (string-prefix-p "login-"
                                (or (plist-get data :correlation-id) ""))
        :answer
        (lambda (status value note)
          (edn-bridge-interact--respond
           ;; Not the one that it came by: it is asked again on others.
           (buffer-local-value 'edn-bridge-chat--conn chat)
           "interaction_respond" id
           (append (list :interaction-id id :status status)
                   (and value (list :value value))
                   (and note (list :note note))))))))))

(defun edn-bridge-interact--ask-on (question conn)
  "Note that QUESTION was asked again, on CONN.
An answer that was sent on another connection may have got lost."
  (unless (eq conn (edn-bridge-interact--question-conn question))
    (setf (edn-bridge-interact--question-conn question) conn
          (edn-bridge-interact--question-chosen question) nil)))

(defun edn-bridge-interact--on-followed ()
  "Settle the questions that were not asked again on this connection."
  (dolist (question (edn-bridge-interact--all))
    (unless (eq edn-bridge-chat--conn
                (edn-bridge-interact--question-conn question))
      (edn-bridge-interact--settle
       (edn-bridge-interact--question-id question)
       (or (edn-bridge-interact--question-chosen question)
           "was answered elsewhere")))))

(defvar edn-bridge-interact-session-name-function #'ignore
  "Function that returns the name of the session with an id, or nil.")

(defun edn-bridge-interact--agent (data)
  "Return the label of the subagent that asks in DATA, or nil if none does."
  (when-let ((agent (plist-get data :subagent-id)))
    (edn-bridge-interact--subagent agent)))

(defun edn-bridge-interact--name (question)
  "Return what the session to which QUESTION belongs is called, and asks."
  (let ((id (edn-bridge-interact--question-root question)))
    (concat (or (funcall edn-bridge-interact-session-name-function id)
                (format "The session %s" id))
            (if (string-prefix-p "approve"
                                 (edn-bridge-interact--question-kind question))
                " — waits for an approval"
              " — waits for an answer"))))

(defun edn-bridge-interact--chat-of (id)
  "Return the chat that shows the session ID, or nil."
  (seq-find (lambda (buffer)
              (equal id (buffer-local-value 'edn-bridge-chat--session-id
                                            buffer)))
            (edn-bridge-chat-buffers)))

(declare-function edn-bridge-sessions-switch "edn-bridge-sessions")

(defun edn-bridge-interact-visit (id)
  "Go to the chat of the session ID, which asks something.
Without one, turn this chat to it, or open one if something was said here."
  (let ((chat (edn-bridge-interact--chat-of id)))
    (if (and (null chat) (edn-bridge-chat-unused-p))
        (edn-bridge-sessions-switch id)
      (pop-to-buffer
       (or chat
           (edn-bridge-chat-open
            default-directory
            (lambda () (setq edn-bridge-chat--session-id id)))))
      (when (> (edn-bridge-interact-pending) 0)
        (edn-bridge-interact-next)))))

(defun edn-bridge-interact-elsewhere ()
  "Return the ids of the other sessions of which questions wait, without double."
  (delete-dups (mapcar #'edn-bridge-interact--question-root
                       edn-bridge-interact--elsewhere)))

(defun edn-bridge-interact--announce-elsewhere ()
  "Show which other sessions ask something, a line each."
  (edn-bridge-chat-set-status
   'edn-bridge-interact-elsewhere
   (mapcar
    (lambda (id)
      (concat
       (edn-bridge-visible-label
        (edn-bridge-interact--name
         (seq-find (lambda (question)
                     (equal id (edn-bridge-interact--question-root question)))
                   edn-bridge-interact--elsewhere)))
       "  "
       (make-text-button (copy-sequence "[Open]") nil
                         'face 'edn-bridge-button 'follow-link t
                         'help-echo "mouse-1, RET: Open"
                         'action (lambda (_button)
                                   (edn-bridge-interact-visit id)))))
    (edn-bridge-interact-elsewhere))))

(defvar-local edn-bridge-interact--tasks nil
  "Tasks of the subagents that this chat was asked about: an alist by id.")

(defun edn-bridge-interact--subagent (id)
  "Return what the subagent ID is called: by its task, where that is known."
  (let ((task (cdr (assoc id edn-bridge-interact--tasks))))
    (if task
        (format "subagent: %s" task)
      (format "subagent %s" id))))

(defun edn-bridge-interact--on-dialog (data)
  "Show the dialog in DATA of `ui/dialog-requested'.
A bridge that knows this frontend as an interactor sends none."
  (let ((id (plist-get data :dialog-id))
        (conn edn-bridge-chat--conn))
    (unless (edn-bridge-interact--find id)
      (edn-bridge-interact--take
       (make-edn-bridge-interact--question
        :id id
        :root (edn-bridge-interact--root data)
        :kind (concat "dialog-" (edn-bridge-chat-word (plist-get data :kind)))
        :payload data
        :conn conn
        :agent (edn-bridge-interact--agent data)
        :answer
        (lambda (status value _note)
          (if (equal status "cancelled")
              (edn-bridge-interact--respond conn "cancel_dialog" id
                                            (list :dialog-id id))
            (edn-bridge-interact--respond
             conn "resolve_dialog" id
             (list :dialog-id id :result (plist-get value :result))))))))))

(defun edn-bridge-interact--respond (conn op id params)
  "Send the answer to question ID on CONN by OP with PARAMS.
A refusal is shown; where the answer came too late, that is all."
  (edn-bridge-rpc-request
   conn op params
   :on-success
   (lambda (_data)
     (edn-bridge-chat-with-buffer conn
       (when-let ((question (edn-bridge-interact--find id)))
         (edn-bridge-interact--settle
          id (or (edn-bridge-interact--question-chosen question)
                 "answered")))))
   :on-error
   (lambda (frame)
     (edn-bridge-chat-with-buffer conn
       (when-let ((question (edn-bridge-interact--find id)))
         (setf (edn-bridge-interact--question-chosen question) nil))
       (if (member (plist-get frame :error-code)
                   '("request/interaction-already-answered"
                     "request/no-active-dialog" "request/not-found"))
           (edn-bridge-interact--settle id "was answered elsewhere")
         (message "edn-bridge: %s" (plist-get frame :error-message)))))))

(defun edn-bridge-interact--on-answered (data)
  "Show that the question of DATA of `interaction/answered' is settled.
Where an answer was sent from here, its response says whether it counted."
  (let* ((id (plist-get data :interaction-id))
         (question (edn-bridge-interact--find id)))
    (unless (and question (edn-bridge-interact--question-chosen question))
      (edn-bridge-interact--settle
       id (edn-bridge-chat-word (plist-get data :status))))))

(defun edn-bridge-interact--on-closed (_data)
  "Settle the questions that wait: nobody is there to be answered."
  (dolist (question (edn-bridge-interact--all))
    (edn-bridge-interact--settle (edn-bridge-interact--question-id question)
                                 "the connection was lost")))

(defun edn-bridge-interact--show-again ()
  "Show the questions that wait again, as the transcript was built again.
Those of a connection that is gone wait no more."
  (let ((questions (seq-filter
                    (lambda (question)
                      (eq (edn-bridge-interact--question-conn question)
                          edn-bridge-chat--conn))
                    (edn-bridge-interact--all))))
    (setq edn-bridge-interact--questions nil
          edn-bridge-interact--elsewhere nil)
    (dolist (question questions)
      ;; The chat may have turned to the session that asks.
      (when (equal (edn-bridge-interact--question-session question)
                   edn-bridge-chat--session-id)
        (setf (edn-bridge-interact--question-session question) nil
              (edn-bridge-interact--question-agent question) nil))
      ;; It is drawn anew, elsewhere.
      (setf (edn-bridge-interact--question-drawn question) nil)
      (edn-bridge-interact--take question))
    (edn-bridge-interact--announce-elsewhere)
    (unless edn-bridge-interact--questions
      (edn-bridge-interact--announce nil))))

;;;; Showing

(defvar edn-bridge-interact-map
  (let ((map (make-sparse-keymap)))
    (define-key map "y" #'edn-bridge-interact-accept)
    (define-key map "n" #'edn-bridge-interact-refuse)
    (define-key map "s" #'edn-bridge-interact-accept-for-session)
    (define-key map "q" #'edn-bridge-interact-cancel)
    (dotimes (index 9)
      (define-key map (number-to-string (1+ index))
        #'edn-bridge-interact-choose-option))
    map)
  "Keymap on the text of a question.")

(defun edn-bridge-interact--row (question)
  "Return the row of `edn-bridge-interact--kinds' for QUESTION."
  (or (assoc (edn-bridge-interact--question-kind question)
             edn-bridge-interact--kinds)
      (assoc "unknown" edn-bridge-interact--kinds)))

(defun edn-bridge-interact--title (question)
  "Return the title of QUESTION."
  (funcall (nth 1 (edn-bridge-interact--row question))
           (edn-bridge-interact--question-payload question)
           (edn-bridge-interact--question-kind question)))

(defun edn-bridge-interact--show (question)
  "Show QUESTION at the end of the transcript."
  (edn-bridge-chat-settle)
  (add-hook 'pre-redisplay-functions #'edn-bridge-interact--on-redisplay nil t)
  (let* ((payload (edn-bridge-interact--question-payload question))
         (row (edn-bridge-interact--row question))
         (title (edn-bridge-interact--title question)))
    (when (plist-get payload :tool-id)
      (edn-bridge-tools-summarize (plist-get payload :tool-id)
                                  (plist-get payload :call-summary)))
    (edn-bridge-transcript-add
      (edn-bridge-transcript-fresh-line 'blank)
      (let ((start (point)))
        (when (edn-bridge-interact--question-agent question)
          (insert (propertize
                   (format "[%s] " (edn-bridge-interact--question-agent question))
                   'face 'edn-bridge-messages-assistant)))
        (insert (propertize (edn-bridge-visible-break title 0)
                            'face (if (edn-bridge-edn-true-p
                                       (plist-get payload :danger))
                                      'edn-bridge-interact-danger
                                    'edn-bridge-interact-title))
                "\n")
        (funcall (nth 2 row) payload)
        (unless (bolp) (insert "\n"))
        (edn-bridge-interact--insert-warnings payload)
        (edn-bridge-interact--mark-as-said start (point))
        (let ((buttons (point)))
          (pcase-dolist (`(,label ,function)
                         (append (funcall (nth 3 row) payload)
                                 '(("Cancel (q)" edn-bridge-interact--cancel))))
            (edn-bridge-interact--insert-button question label function)
            (insert " "))
          (insert "\n")
          (put-text-property start (point) 'edn-bridge-question
                             (edn-bridge-interact--question-id question))
          (edn-bridge-interact--add-keymap start (point))
          (setf (edn-bridge-interact--question-start question)
                (copy-marker buttons)
                (edn-bridge-interact--question-end question)
                (copy-marker (point))))))
    (setq edn-bridge-interact--questions
          (append edn-bridge-interact--questions (list question)))
    (edn-bridge-interact--announce
     (edn-bridge-interact--prompting question title))
    (run-hook-with-args 'edn-bridge-interact-shown-functions question)))

(defun edn-bridge-interact--mark-as-said (start end)
  "Show that the text between START and END is what a question says.
A bar stands at the left of its lines, which the text cannot take away, and
none at the buttons: no text looks like them."
  (edn-bridge-visible-region start end 'strict)
  (let ((bar (propertize "│ " 'face 'edn-bridge-interact-bar)))
    (add-text-properties start end (list 'line-prefix bar
                                         'wrap-prefix bar))))

(defun edn-bridge-interact--insert-warnings (payload)
  "Insert the `:warnings' of PAYLOAD, a line each.
They are sentences, or maps with one as `:text'."
  (seq-do (lambda (warning)
            (let ((text (if (consp warning)
                            (plist-get warning :text)
                          warning)))
              (when (stringp text)
                (insert (propertize (concat "! "
                                            (edn-bridge-visible-label text))
                                    'face 'edn-bridge-interact-danger)
                        "\n"))))
          (let ((warnings (plist-get payload :warnings)))
            (append (if (stringp warnings) (list warnings) warnings)
                    (edn-bridge-interact--unsaved payload)))))

(defun edn-bridge-interact--unsaved (payload)
  "Return warnings of unsaved changes in what PAYLOAD would change."
  (let ((paths (append (plist-get payload :paths) nil))
        (path (edn-bridge-tools-path (plist-get payload :tool-id))))
    (when (or paths (plist-get payload :diff))
      (mapcar (lambda (path)
                (format (if (edn-bridge-files-shared-p
                             (edn-bridge-buffers-visiting path))
                            "%s has unsaved changes in Emacs, which would be saved too."
                          "%s has unsaved changes in Emacs; the file on disk would be changed.")
                        path))
              (edn-bridge-buffers-unsaved
               (delete-dups (if path (append paths (list path)) paths)))))))

(defun edn-bridge-interact--announce (title)
  "Show whether questions wait, and run the hook with TITLE.
That is the title of a question that came, or nil where one is settled."
  (let ((count (edn-bridge-interact-pending)))
    (setq edn-bridge-chat-asking (> count 0))
    (edn-bridge-chat-set-status
     'edn-bridge-interact
     (pcase count
       (0 nil)
       (1 (list (edn-bridge-interact--waiting "A question waits")))
       (_ (list (edn-bridge-interact--waiting
                 (format "%d questions wait" count)))))))
  (force-mode-line-update)
  (run-hook-with-args 'edn-bridge-interact-functions title))

(defun edn-bridge-interact--waiting (text)
  "Return TEXT, that questions wait, with the key that goes there."
  (concat (propertize text 'face 'edn-bridge-interact-title)
          (edn-bridge-faces-keys "; \\[edn-bridge-interact-next] goes there")))

(defun edn-bridge-interact--add-keymap (start end)
  "Have the keys of questions work between START and END, buttons too."
  (let ((place start))
    (while (< place end)
      (let ((next (next-single-property-change place 'keymap nil end))
            (map (get-text-property place 'keymap)))
        (put-text-property place next 'keymap
                           (if map
                               (make-composed-keymap
                                map edn-bridge-interact-map)
                             edn-bridge-interact-map))
        (setq place next)))))

(defun edn-bridge-interact--insert-button (question label function)
  "Insert a button with LABEL that answers QUESTION by FUNCTION."
  (let ((buffer (current-buffer))
        (label (edn-bridge-visible-label label)))
    (insert-text-button
     (concat "[" label "]")
     'face 'edn-bridge-interact-button
     'follow-link t
     'help-echo label
     'action (lambda (_button)
               (with-current-buffer buffer
                 (edn-bridge-interact--give question label function))))
    ;; A button's keymap is a property of its category; the text needs it
    ;; as its own for the keys of the question to be added.
    (put-text-property (- (point) (length label) 2) (point)
                       'keymap button-map)))

(defun edn-bridge-interact--beginning (place)
  "Return where the text of the question that has PLACE begins."
  (if (and (> place (point-min))
           (get-text-property (1- place) 'edn-bridge-question))
      (previous-single-property-change place 'edn-bridge-question nil
                                       (point-min))
    place))

(defun edn-bridge-interact--give (question label function)
  "Give QUESTION the answer LABEL, which FUNCTION sends.
Who was at the question is back in the draft then, where the answer of the
model is seen as it comes."
  (edn-bridge-interact--check-seen question)
  (let ((edn-bridge-interact--label
         (string-trim (replace-regexp-in-string "([a-z])\\'" "" label)))
        (here (equal (get-text-property (point) 'edn-bridge-question)
                     (edn-bridge-interact--question-id question))))
    (funcall function question)
    (when (and here (edn-bridge-interact--question-chosen question))
      (goto-char (point-max)))))

(defun edn-bridge-interact--settle (id outcome)
  "Show OUTCOME in the place of question ID, if it waits."
  (when-let ((question (edn-bridge-interact--find id)))
    (if (memq question edn-bridge-interact--elsewhere)
        (progn
          (setq edn-bridge-interact--elsewhere
                (delq question edn-bridge-interact--elsewhere))
          (edn-bridge-interact--announce-elsewhere)
          (run-hook-with-args 'edn-bridge-interact-functions nil))
      (edn-bridge-interact--settle-here question outcome))))

(defun edn-bridge-interact--settle-here (question outcome)
  "Show OUTCOME in the place of QUESTION, which the chat shows.
It stands on the line of the call that was asked about, or else on a line
with the title."
  (setq edn-bridge-interact--questions
        (delq question edn-bridge-interact--questions))
  (mapc #'edn-bridge-interact--drop-edited
        (edn-bridge-interact--question-edited question))
  (let* ((start (edn-bridge-interact--question-start question))
         (end (edn-bridge-interact--question-end question))
         (top (copy-marker
               (edn-bridge-interact--beginning (marker-position start))))
         (noted (edn-bridge-tools-note-answer
                 (plist-get (edn-bridge-interact--question-payload question)
                            :tool-id)
                 outcome)))
    (edn-bridge-transcript-edit
      (goto-char top)
      (if noted
          ;; With the empty line that was above it.
          (skip-chars-backward "\n" (max (point-min) (1- (point))))
        (insert (edn-bridge-interact--settled-line
                 (edn-bridge-interact--title question) outcome))
        (edn-bridge-transcript-protect (marker-position top) (point)))
      (delete-region (point) end))
    (set-marker top nil)
    (set-marker start nil)
    (set-marker end nil))
  (edn-bridge-interact--announce nil))

(defun edn-bridge-interact--settled-line (title outcome)
  "Return the line that says that the question TITLE had OUTCOME."
  (let* ((title (replace-regexp-in-string "[ \t\n]+" " " title))
         (outcome (replace-regexp-in-string "[ \t\n]+" " " outcome))
         (end (concat " → " (edn-bridge-visible-label outcome)))
         (label (edn-bridge-visible-label title)))
    (propertize
     (concat (truncate-string-to-width
              label (max 20 (- (edn-bridge-tools-width) (string-width end) 1))
              nil nil "…")
             end "\n")
     'face 'edn-bridge-chat-notice
     'help-echo (concat label end))))

(defvar-local edn-bridge-interact--sent nil
  "Buffers whose text was sent for a file, an alist by the id of the call.
They are kept until the call has written it.")

(defun edn-bridge-interact--drop-edited (buffer)
  "Kill BUFFER, in which a proposal was edited, unless it is in use."
  (when (and (buffer-live-p buffer)
             (not (rassq buffer edn-bridge-interact--sent))
             (not (get-buffer-window buffer t)))
    (with-current-buffer buffer
      (set-buffer-modified-p nil)
      (kill-buffer))))

;;;; Answering

(defun edn-bridge-interact--answer (question value &optional note)
  "Answer QUESTION with VALUE, a property list, and NOTE to the model."
  (unless (memq question edn-bridge-interact--questions)
    (user-error "This question was answered"))
  (setf (edn-bridge-interact--question-chosen question)
        (concat (or edn-bridge-interact--label "answered")
                (if (member note '(nil ""))
                    ""
                  (concat ": " note))))
  (funcall (edn-bridge-interact--question-answer question)
           "accepted" value
           (and note (not (equal note "")) note)))

(defun edn-bridge-interact--cancel (question)
  "Cancel QUESTION."
  (unless (memq question edn-bridge-interact--questions)
    (user-error "This question was answered"))
  (setf (edn-bridge-interact--question-chosen question) "cancelled")
  (funcall (edn-bridge-interact--question-answer question)
           "cancelled" nil nil))

(defun edn-bridge-interact--answerer (value)
  "Return a function that answers a question with VALUE."
  (lambda (question) (edn-bridge-interact--answer question value)))

(defun edn-bridge-interact--prompting (question text)
  "Return TEXT, a prompt for the answer to QUESTION, with the asking session."
  (let ((agent (edn-bridge-interact--question-agent question)))
    (edn-bridge-visible-label (if agent
                                  (format "[%s] %s" agent text)
                                text))))

(defun edn-bridge-interact--denier ()
  "Return a function that denies what a question asks for, with a reason."
  (lambda (question)
    (edn-bridge-interact--answer
     question '(:outcome "deny")
     (read-string (edn-bridge-interact--prompting
                   question
                   "Why not (the model gets it; may be empty): ")))))

;;;; Commands

(defun edn-bridge-interact--choose-answer (letter)
  "Give the answer whose label has LETTER to the question at point."
  (let* ((question (edn-bridge-interact--at-point))
         (row (assoc (edn-bridge-interact--question-kind question)
                     edn-bridge-interact--kinds))
         (answer (and row
                      (seq-find
                       (lambda (answer)
                         (string-suffix-p (format "(%s)" letter) (car answer)))
                       (funcall (nth 3 row)
                                (edn-bridge-interact--question-payload
                                 question))))))
    (unless answer
      (user-error "This question has no such answer; use its buttons"))
    (edn-bridge-interact--give question (nth 0 answer) (nth 1 answer))))

(defun edn-bridge-interact-accept ()
  "Accept the question at point, or else to the only one on the screen."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--choose-answer "y"))

(defun edn-bridge-interact-accept-for-session ()
  "Allow what the question at point asks for in the whole session."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--choose-answer "s"))

(defun edn-bridge-interact-refuse ()
  "Say no to the question at point, or else to the only one on the screen."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--choose-answer "n"))

(defun edn-bridge-interact-choose-option (number)
  "Answer the question at point with its option NUMBER.
Interactively, that is the digit that was typed."
  (interactive (list (- (event-basic-type last-command-event) ?0))
               edn-bridge-chat-mode)
  (let* ((question (edn-bridge-interact--at-point))
         (payload (edn-bridge-interact--question-payload question))
         (option (and (member (edn-bridge-interact--question-kind question)
                              '("select" "dialog-select"))
                      (not (edn-bridge-edn-true-p (plist-get payload :multi)))
                      (nth (1- number) (append (plist-get payload :options)
                                               nil)))))
    (unless option
      (user-error "This question has no option %d; use its buttons" number))
    (edn-bridge-interact--give
     question (plist-get option :label)
     (edn-bridge-interact--answerer
      (if (equal (edn-bridge-interact--question-kind question) "select")
          (list :index (1- number))
        (list :result (plist-get option :value)))))))

(defun edn-bridge-interact-cancel ()
  "Cancel the question at point, or else the only one on the screen."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--give (edn-bridge-interact--at-point)
                             "Cancel" #'edn-bridge-interact--cancel))

(defun edn-bridge-interact--cancel-login ()
  "Cancel the questions of a login, if there are any."
  (dolist (question (copy-sequence edn-bridge-interact--questions))
    (when (and (edn-bridge-interact--question-login question)
               (null (edn-bridge-interact--question-chosen question)))
      (edn-bridge-interact--cancel question))))

(defun edn-bridge-interact-next ()
  "Go to the next question that waits, at its first button."
  (interactive nil edn-bridge-chat-mode)
  (let ((starts (mapcar (lambda (question)
                          (marker-position
                           (edn-bridge-interact--question-start question)))
                        edn-bridge-interact--questions)))
    (unless starts
      (user-error "No question is waiting"))
    (goto-char (or (seq-find (lambda (start) (> start (point))) starts)
                   (car starts)))))

(edn-bridge-chat-handle "interaction/requested"
                        #'edn-bridge-interact--on-requested)
(edn-bridge-chat-handle "interaction/answered"
                        #'edn-bridge-interact--on-answered)
(edn-bridge-chat-handle "client/closed" #'edn-bridge-interact--on-closed)
(edn-bridge-chat-handle "ui/dialog-requested"
                        #'edn-bridge-interact--on-dialog)
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-interact--show-again)
(add-hook 'edn-bridge-chat-followed-hook #'edn-bridge-interact--on-followed)

(add-hook 'edn-bridge-input-abort-hook #'edn-bridge-interact--cancel-login)

(define-key edn-bridge-chat-mode-map (kbd "C-c C-a") #'edn-bridge-interact-next)
(define-key edn-bridge-chat-mode-map (kbd "C-c C-y") #'edn-bridge-interact-accept)

(provide 'edn-bridge-interact)

;;; edn-bridge-interact.el ends here
