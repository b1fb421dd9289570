;;; edn-bridge-interact.el --- Questions of the agent to the user  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The agent asks: for a text, a choice, an approval, a login.  A question
;; is shown in the chat, with buttons and keys; it waits there and takes
;; neither the keyboard nor the minibuffer.  Whatever reads from the
;; minibuffer does so because a button was pressed.
;;
;; Several frontends may be asked at once.  The first answer counts; the
;; others see that the question was answered.
;;
;; A kind of question is a row of `edn-bridge-interact--kinds': how it is
;; told, and which answers there are.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-complete)
(require 'edn-bridge-tools)
(require 'edn-bridge-buffers)
(require 'edn-bridge-ediff)
(require 'edn-bridge-files)

(defface edn-bridge-interact-title
  '((t :inherit warning))
  "Face of the first line of a question."
  :group 'edn-bridge)

(defface edn-bridge-interact-danger
  '((t :inherit error))
  "Face of a question whose answer can do harm."
  :group 'edn-bridge)

(defface edn-bridge-interact-button
  '((t :inherit (custom-button link) :weight bold))
  "Face of the buttons that answer a question."
  :group 'edn-bridge)

(defface edn-bridge-interact-bar
  '((t :inherit edn-bridge-interact-title))
  "Face of the bar at the left of what a question says."
  :group 'edn-bridge)

(defvar edn-bridge-interact--kinds)

(defvar edn-bridge-interact--label nil
  "Label of the answer that is being given, or nil.")

(defvar edn-bridge-interact-functions nil
  "Abnormal hook run in a chat buffer when a question comes or goes.
The functions are called with the question's title, or nil when one is
settled.")

;;;; Questions

(cl-defstruct (edn-bridge-interact--question (:copier nil))
  "A question that waits for an answer."
  id kind payload conn
  agent                       ; label of the asking session, unless it is this one
  session                     ; its id
  login                       ; non-nil if it is a login's
  start end                   ; markers around its text
  chosen                      ; label of the answer that was sent, or nil
  edited                      ; buffers in which what is proposed is edited
  answer)                     ; function of status, value and note

(defvar-local edn-bridge-interact--questions nil
  "Questions of this chat that wait, the oldest first.")

(defun edn-bridge-interact-pending ()
  "Return how many questions of this chat wait for an answer."
  (length edn-bridge-interact--questions))

(defun edn-bridge-interact--find (id)
  "Return the waiting question ID of this chat, or nil."
  (seq-find (lambda (question)
              (equal id (edn-bridge-interact--question-id question)))
            edn-bridge-interact--questions))

(defun edn-bridge-interact--at-point ()
  "Return the waiting question at point, or else the oldest; fail if none."
  (or (edn-bridge-interact--find
       (get-text-property (point) 'edn-bridge-question))
      (car edn-bridge-interact--questions)
      (user-error "No question is waiting")))

;;;; Events

(defun edn-bridge-interact--on-requested (data)
  "Show the question in DATA of `interaction/requested'."
  (let ((id (plist-get data :interaction-id))
        (conn edn-bridge-chat--conn)
        (chat (current-buffer)))
    (if-let ((question (edn-bridge-interact--find id)))
        (edn-bridge-interact--ask-on question conn)
      (edn-bridge-interact--show
       (make-edn-bridge-interact--question
        :id id
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
  (dolist (question (copy-sequence edn-bridge-interact--questions))
    (unless (eq edn-bridge-chat--conn
                (edn-bridge-interact--question-conn question))
      (edn-bridge-interact--settle
       (edn-bridge-interact--question-id question)
       (or (edn-bridge-interact--question-chosen question)
           "was answered elsewhere")))))

(defun edn-bridge-interact--agent (data)
  "Return the label of the asking session in DATA, or nil if it is this one."
  (let ((agent (plist-get data :subagent-id)))
    (cond (agent (edn-bridge-interact--subagent agent))
          ((not (edn-bridge-chat-mine-p data))
           (format "session %s" (plist-get data :session-id))))))

(defvar-local edn-bridge-interact--tasks nil
  "Tasks of the subagents that this chat was asked about: an alist by id.")

(defun edn-bridge-interact--subagent (id)
  "Return what the subagent ID is called: by its task, where that is known."
  (let ((task (cdr (assoc id edn-bridge-interact--tasks))))
    (if task
        (format "subagent: %s" task)
      (format "subagent %s" id))))

(defun edn-bridge-interact--subagent-title (payload _kind)
  "Return the title of the question whether the subagent of PAYLOAD may start."
  (let ((task (plist-get payload :prompt-summary)))
    (when (and (stringp task) (not (equal task "")))
      (setf (alist-get (plist-get payload :subagent-id)
                       edn-bridge-interact--tasks nil nil #'equal)
            (truncate-string-to-width task 40 nil nil "…"))))
  "Start a subagent?")

(defun edn-bridge-interact--subagent-text (payload)
  "Insert what the subagent of PAYLOAD would do, and with what."
  (let ((depth (plist-get payload :depth)))
    (edn-bridge-interact--fact "task" (plist-get payload :prompt-summary))
    (edn-bridge-interact--fact "tools" (plist-get payload :requested-envelope))
    (edn-bridge-interact--fact
     "model" (edn-bridge-interact--model (plist-get payload :model)))
    (when (and (integerp depth) (> depth 1))
      (edn-bridge-interact--fact
       "note" (format "A subagent asks for this, %d levels below the chat"
                      (1- depth))))))

(defun edn-bridge-interact--model (model)
  "Return the name of MODEL, a map of its provider and id, or MODEL."
  (if (and (consp model) (plist-get model :id))
      (format "%s/%s" (edn-bridge-chat-word (plist-get model :provider))
              (plist-get model :id))
    model))

(defun edn-bridge-interact--insert-manner (payload)
  "Insert how the command of PAYLOAD would run, where that is not as usual."
  (let* ((id (plist-get payload :tool-id))
         (timeout (edn-bridge-tools-argument id :timeout-seconds)))
    (when (edn-bridge-edn-true-p (or (edn-bridge-tools-argument id :background)
                                     (plist-get payload :background)))
      (edn-bridge-interact--fact "how" "In the background; the turn goes on"))
    (when (numberp timeout)
      (edn-bridge-interact--fact "time" (format "At most %s seconds" timeout)))))

(defun edn-bridge-interact--on-dialog (data)
  "Show the dialog in DATA of `ui/dialog-requested'.
A bridge that knows this frontend as an interactor sends none."
  (let ((id (plist-get data :dialog-id))
        (conn edn-bridge-chat--conn))
    (unless (edn-bridge-interact--find id)
      (edn-bridge-interact--show
       (make-edn-bridge-interact--question
        :id id
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
  (dolist (question (copy-sequence edn-bridge-interact--questions))
    (edn-bridge-interact--settle (edn-bridge-interact--question-id question)
                                 "the connection was lost")))

(defun edn-bridge-interact--show-again ()
  "Show the questions that wait again, as the transcript was built again.
Those of a connection that is gone wait no more."
  (let ((questions (seq-filter
                    (lambda (question)
                      (eq (edn-bridge-interact--question-conn question)
                          edn-bridge-chat--conn))
                    edn-bridge-interact--questions)))
    (setq edn-bridge-interact--questions nil)
    (dolist (question questions)
      ;; The chat may have turned to the session that asks.
      (when (equal (edn-bridge-interact--question-session question)
                   edn-bridge-chat--session-id)
        (setf (edn-bridge-interact--question-session question) nil
              (edn-bridge-interact--question-agent question) nil))
      (edn-bridge-interact--show question))
    (unless questions
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

(defun edn-bridge-interact--show (question)
  "Show QUESTION at the end of the transcript."
  (edn-bridge-chat-settle)
  (let* ((kind (edn-bridge-interact--question-kind question))
         (payload (edn-bridge-interact--question-payload question))
         (row (or (assoc kind edn-bridge-interact--kinds)
                  (assoc "unknown" edn-bridge-interact--kinds)))
         (title (funcall (nth 1 row) payload kind)))
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
                                 '(("Cancel" edn-bridge-interact--cancel))))
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
     (edn-bridge-interact--prompting question title))))

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
          (substitute-command-keys "; \\[edn-bridge-interact-next] goes there")))

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
  (let ((edn-bridge-interact--label
         (string-trim (replace-regexp-in-string "([a-z])\\'" "" label)))
        (here (equal (get-text-property (point) 'edn-bridge-question)
                     (edn-bridge-interact--question-id question))))
    (funcall function question)
    (when (and here (edn-bridge-interact--question-chosen question))
      (goto-char (point-max)))))

(defun edn-bridge-interact--settle (id outcome)
  "Show OUTCOME in the place of the buttons of question ID, if it waits.
Of a call, whose own line shows what it does, only the title stays."
  (when-let ((question (edn-bridge-interact--find id)))
    (setq edn-bridge-interact--questions
          (delq question edn-bridge-interact--questions))
    (mapc #'edn-bridge-interact--drop-edited
          (edn-bridge-interact--question-edited question))
    (let* ((start (edn-bridge-interact--question-start question))
           (end (edn-bridge-interact--question-end question))
           (top (edn-bridge-interact--beginning (marker-position start)))
           (short (edn-bridge-tools-shown-p
                   (plist-get (edn-bridge-interact--question-payload question)
                              :tool-id))))
      (edn-bridge-transcript-edit
        ;; Its keys would answer another question now.
        (remove-list-of-text-properties
         top end '(keymap edn-bridge-question line-prefix wrap-prefix))
        (if (not short)
            (goto-char start)
          (goto-char top)
          (end-of-line))
        (let ((from (point)))
          (insert (if short " " "")
                  (propertize (format "→ %s" outcome)
                              'face 'edn-bridge-chat-notice)
                  "\n")
          (edn-bridge-transcript-protect from (point)))
        (delete-region (point) end))
      (set-marker start nil)
      (set-marker end nil))
    (edn-bridge-interact--announce nil)))

(defun edn-bridge-interact--drop-edited (buffer)
  "Kill BUFFER, in which a proposal was edited, unless it is in use."
  (when (and (buffer-live-p buffer)
             (not (rassq buffer edn-bridge-interact--sent))
             (not (get-buffer-window buffer t)))
    (with-current-buffer buffer
      (set-buffer-modified-p nil)
      (kill-buffer))))

(defvar-local edn-bridge-interact--sent nil
  "Buffers whose text was sent for a file, an alist by the id of the call.
They are kept until the call has written it.")

(defun edn-bridge-interact--on-result (data)
  "Drop what was edited for the call of DATA of `tool/result', if it is written.
Otherwise say where it is."
  (when-let ((entry (and (edn-bridge-chat-mine-p data)
                         (assoc (plist-get data :tool-id)
                                edn-bridge-interact--sent)))
             (buffer (cdr entry)))
    (setq edn-bridge-interact--sent (delq entry edn-bridge-interact--sent))
    (cond
     ((not (buffer-live-p buffer)))
     ((and (not (edn-bridge-edn-true-p (plist-get data :is-error)))
           (edn-bridge-edn-true-p
            (plist-get (plist-get data :details) :edited)))
      (edn-bridge-interact--drop-edited buffer))
     (t
      (edn-bridge-chat-notice
       (format "Your text for the file was not written; it is in the buffer %s"
               (buffer-name buffer)))))))

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
                   "Why not (the model is told; may be empty): ")))))

;;;; Kinds

(defun edn-bridge-interact--prompt (payload _kind)
  "Return the prompt in PAYLOAD."
  (or (plist-get payload :prompt) "The agent asks"))

(defun edn-bridge-interact--options-text (payload)
  "Insert the options in PAYLOAD, numbered."
  (let ((index 0))
    (seq-do (lambda (option)
              (cl-incf index)
              (insert (format "  %d. %s" index
                              (edn-bridge-visible-label
                               (plist-get option :label))))
              (when-let ((text (plist-get option :description)))
                (insert "  " (propertize (edn-bridge-visible-label text)
                                         'face 'edn-bridge-chat-notice)))
              (insert "\n"))
            (plist-get payload :options))))

(defun edn-bridge-interact--facts (payload)
  "Insert what PAYLOAD says beyond a prompt, one fact a line."
  (cl-loop for (key value) on payload by #'cddr
           unless (memq key '(:prompt :danger :default))
           do (edn-bridge-interact--fact (edn-bridge-chat-word key) value)))

(defun edn-bridge-interact--facts-of (&rest rows)
  "Return a function that inserts what a payload says under the keys of ROWS.
A row is a list of a key and its description for the user."
  (lambda (payload)
    (pcase-dolist (`(,key ,name) rows)
      (edn-bridge-interact--fact name (plist-get payload key)))))

(defun edn-bridge-interact--fact (name value)
  "Insert a line that says that NAME is VALUE, unless VALUE is nil."
  (when value
    (insert "  " (propertize name 'face 'edn-bridge-chat-notice) " "
            (edn-bridge-visible-label
             (cond ((stringp value) value)
                   ((and (vectorp value) (seq-every-p #'stringp value))
                    (mapconcat #'identity value ", "))
                   (t (edn-bridge-edn-print-string value))))
            "\n")))

(defun edn-bridge-interact--approval-text (payload)
  "Insert what would happen if PAYLOAD of an approval were allowed."
  (let ((summary (plist-get payload :call-summary))
        (command (plist-get payload :command))
        (diff (plist-get payload :diff))
        (paths (plist-get payload :paths)))
    (cond
     ((and (stringp diff) (not (equal diff "")))
      (edn-bridge-tools-insert-diff diff)
      (edn-bridge-tools-insert-diff-button payload 'edn-bridge-interact-button
                                           #'edn-bridge-interact--session)
      (edn-bridge-interact--insert-ediff-button payload diff))
     ((and (stringp command) (not (equal command "")))
      (insert (propertize (edn-bridge-visible-break command 0)
                          'face 'edn-bridge-tools-output)
              "\n")
      (edn-bridge-interact--insert-manner payload))
     ((stringp summary)
      (insert "  " (edn-bridge-visible-label summary) "\n")))
    (when (and (seq-empty-p diff) (not (seq-empty-p paths)))
      (insert "  " (mapconcat #'edn-bridge-visible-label paths "\n  ") "\n"))
    (when-let ((rule (plist-get payload :suggested-rule)))
      (insert (propertize
               (format "  always: %s"
                       (edn-bridge-visible-label
                        (edn-bridge-interact--rule-label rule command)))
               'face 'edn-bridge-chat-notice)
              "\n"))))

(defun edn-bridge-interact--rule-label (rule command)
  "Return in words what RULE permits, where COMMAND, or nil, is asked about.
A rule that says more than there are words for is shown as it is."
  (let ((tool (and (consp rule) (plist-get rule :tool)))
        (path (and (consp rule) (plist-get rule :path)))
        (words (and (consp rule) (plist-get rule :command))))
    (cond
     ((stringp rule) rule)
     ((or (not (stringp tool))
          (not (eq (plist-get rule :decision) :allow))
          (cl-loop for (key _value) on rule by #'cddr
                   thereis (not (memq key '(:decision :tool :command :path
                                                      :exact))))
          (and path words))
      (edn-bridge-edn-print-string rule))
     ((stringp path) (format "%s of %s" tool path))
     ((not (stringp words)) (edn-bridge-edn-print-string rule))
     ((not (edn-bridge-edn-true-p (plist-get rule :exact)))
      (format "each command that begins with: %s" words))
     ((equal words command) "this command, word for word")
     (t (format "this command, word for word: %s" words)))))

(defun edn-bridge-interact--insert-ediff-button (payload diff)
  "Insert buttons that show DIFF, of one file of PAYLOAD, beside that file.
Where PAYLOAD has the whole proposal, it can be edited there."
  (let ((proposal (plist-get payload :proposal)))
    (if (not (and (consp proposal)
                  (stringp (plist-get proposal :path))))
        (edn-bridge-interact--insert-compare-button payload diff)
      (edn-bridge-interact--insert-edit-button
       "[Edit with Ediff]" proposal #'edn-bridge-ediff-edit)
      (insert " ")
      (edn-bridge-interact--insert-edit-button
       "[Choose hunks]" proposal #'edn-bridge-ediff-merge)
      (insert "\n"))))

(defun edn-bridge-interact--insert-edit-button (label proposal function)
  "Insert a button with LABEL that has PROPOSAL edited by FUNCTION.
That is the question at the button."
  (insert-text-button
   label
   'face 'edn-bridge-interact-button
   'follow-link t
   'action
   (lambda (button)
     (let ((question (or (edn-bridge-interact--of-button button)
                         (user-error "This question was answered"))))
       (edn-bridge-interact--with-proposal
        proposal
        (lambda (content)
          (edn-bridge-interact--edit question proposal content function))
        (edn-bridge-interact--question-session question))))))

(defun edn-bridge-interact--of-button (button)
  "Return the waiting question that BUTTON is of, or nil."
  (edn-bridge-interact--find (get-text-property (button-start button)
                                                'edn-bridge-question)))

(defun edn-bridge-interact--session (button)
  "Return the id of the session that asks at BUTTON, nil for this chat's."
  (when-let ((question (edn-bridge-interact--of-button button)))
    (edn-bridge-interact--question-session question)))

(defun edn-bridge-interact--with-proposal (proposal function session)
  "Call FUNCTION with the whole text of PROPOSAL of SESSION, nil for this one."
  (let ((content (plist-get proposal :content)))
    (if (stringp content)
        (funcall function content)
      (edn-bridge-tools-read-output (plist-get proposal :handle)
                                    edn-bridge-interact--proposal-limit
                                    function session))))

(defconst edn-bridge-interact--proposal-limit (* 2 1024 1024)
  "Largest proposal, in bytes, that can be edited.")

(defun edn-bridge-interact--edit (question proposal content function)
  "Have CONTENT of PROPOSAL edited by FUNCTION, as the answer to QUESTION."
  (let ((chat (current-buffer)))
    (setf (edn-bridge-interact--question-edited question)
          (cons
           (funcall
            function (plist-get proposal :path)
            (plist-get proposal :base-sha256) content
            (lambda (text)
              (let ((buffer (current-buffer)))
                (unless (buffer-live-p chat)
                  (user-error "The chat is gone"))
                (with-current-buffer chat
                  (edn-bridge-interact--accept question proposal text)
                  (when text
                    (edn-bridge-interact--note-sent question buffer))))))
           (edn-bridge-interact--question-edited question)))))

(defun edn-bridge-interact--accept (question proposal text)
  "Accept PROPOSAL as the answer to QUESTION, with TEXT in its place if non-nil."
  ;; The bridge refuses a text that was made of another file, and then the
  ;; question is over.
  (when text
    (edn-bridge-ediff-check (plist-get proposal :path)
                            (plist-get proposal :base-sha256)))
  (let ((edn-bridge-interact--label
         (if text "Allow once, as edited" "Allow once")))
    (edn-bridge-interact--answer
     question
     (append '(:outcome "approve" :scope "once")
             (and text (list :content text))))))

(defun edn-bridge-interact--note-sent (question buffer)
  "Note that the text of BUFFER was sent as the answer to QUESTION.
How a call of another session ends is not told here."
  (let ((call (plist-get (edn-bridge-interact--question-payload question)
                         :tool-id)))
    (when (and call (not (edn-bridge-interact--question-session question)))
      (setf (alist-get call edn-bridge-interact--sent nil nil #'equal)
            buffer))))

(defun edn-bridge-interact--insert-compare-button (payload diff)
  "Insert a button that shows DIFF, of one file of PAYLOAD, with Ediff."
  (let* ((path (edn-bridge-tools-path (plist-get payload :tool-id)))
         (paths (append (plist-get payload :paths) nil))
         (paths (or paths (and path (list path)))))
    (when (and (edn-bridge-ediff-possible-p diff paths)
               (not (plist-get payload :diff-handle)))
      (insert-text-button "[Compare with Ediff]"
                          'face 'edn-bridge-interact-button
                          'follow-link t
                          'action (lambda (_button)
                                    (edn-bridge-ediff (car paths) diff)))
      (insert "\n"))))

(defun edn-bridge-interact--approval-answers (payload)
  "Return the answers to PAYLOAD of an approval."
  (append
   `(("Allow once (y)"
      ,(edn-bridge-interact--answerer '(:outcome "approve" :scope "once")))
     ("Allow for this session (s)"
      ,(edn-bridge-interact--answerer '(:outcome "approve" :scope "session"))))
   (when-let ((rule (plist-get payload :suggested-rule)))
     `(("Allow always"
        ,(edn-bridge-interact--answerer
          (list :outcome "approve" :scope "rule" :rule rule)))))
   `(("Reject (n)" ,(edn-bridge-interact--denier)))))

(defun edn-bridge-interact--ask (question)
  "Answer QUESTION with a text from the minibuffer."
  (let ((payload (edn-bridge-interact--question-payload question)))
    (edn-bridge-interact--answer
     question
     (list :text (read-string
                  (edn-bridge-interact--prompting
                   question (format "%s: " (plist-get payload :prompt)))
                  nil nil (plist-get payload :placeholder))))))

(defun edn-bridge-interact--ask-draft (question)
  "Answer QUESTION with the draft."
  (let ((text (string-trim (edn-bridge-transcript-draft))))
    (when (equal text "")
      (user-error "The draft is empty"))
    (edn-bridge-interact--answer question (list :text text))
    (edn-bridge-transcript-reset-draft)))

(defun edn-bridge-interact--select (question)
  "Answer QUESTION by choosing one of its options, or several."
  (let* ((payload (edn-bridge-interact--question-payload question))
         (options (append (plist-get payload :options) nil))
         (label (lambda (option) (plist-get option :label)))
         (note (lambda (option) (plist-get option :description))))
    (edn-bridge-interact--answer
     question
     (if (edn-bridge-edn-true-p (plist-get payload :multi))
         (list :indices
               (vconcat
                (mapcar (lambda (option) (seq-position options option #'eq))
                        (edn-bridge-complete-choose-several
                         (edn-bridge-interact--prompting
                          question (format "%s (several, with commas): "
                                           (plist-get payload :prompt)))
                         'edn-bridge-option options label note))))
       (list :index
             (seq-position options
                           (edn-bridge-complete-choose
                            (edn-bridge-interact--prompting
                             question
                             (format "%s: " (plist-get payload :prompt)))
                            'edn-bridge-option options label note)
                           #'eq))))))

(defun edn-bridge-interact--select-answers (payload)
  "Return the answers to PAYLOAD of a select: the options, if they are few."
  (let ((options (plist-get payload :options)))
    (if (or (> (length options) 6)
            (edn-bridge-edn-true-p (plist-get payload :multi)))
        '(("Choose" edn-bridge-interact--select))
      (seq-map-indexed
       (lambda (option index)
         (list (plist-get option :label)
               (edn-bridge-interact--answerer (list :index index))))
       options))))

(defun edn-bridge-interact--password (question)
  "Answer QUESTION with a secret that is not echoed."
  (let ((secret (read-passwd
                 (edn-bridge-interact--prompting
                  question
                  (format "%s: " (plist-get
                                  (edn-bridge-interact--question-payload
                                   question)
                                  :prompt))))))
    (unwind-protect
        (edn-bridge-interact--answer question (list :secret secret))
      (clear-string secret))))

(defun edn-bridge-interact--password-text (payload)
  "Insert a button for the page that the prompt of PAYLOAD names, if it does."
  (let ((prompt (plist-get payload :prompt)))
    (when (and (stringp prompt)
               (string-match "https://[^] \t\n)>\"`]+" prompt))
      (let ((url (match-string 0 prompt)))
        (insert "  ")
        (insert-text-button (edn-bridge-visible-label url)
                            'follow-link t
                            'action (lambda (_button) (browse-url url)))
        (insert "\n")))))

(defun edn-bridge-interact--device-text (payload)
  "Insert where the login of PAYLOAD is to be made, and by which code."
  (let ((url (plist-get payload :url)))
    (insert "  ")
    (insert-text-button url
                        'follow-link t
                        'action (lambda (_button) (browse-url url)))
    (insert "\n  code: "
            (propertize (or (plist-get payload :code) "") 'face 'bold)
            "\n")))

(defun edn-bridge-interact--device-answers (payload)
  "Return the answers to PAYLOAD of a login by a device code."
  `(("Open the page and copy the code"
     ,(lambda (_question)
        (kill-new (plist-get payload :code))
        (browse-url (plist-get payload :url))))
    ("Done" ,(edn-bridge-interact--answerer '(:done t)))))

(defun edn-bridge-interact--nothing (_payload)
  "Insert nothing."
  nil)

(defun edn-bridge-interact--dialog-title (payload _kind)
  "Return the title of the dialog in PAYLOAD."
  (or (plist-get payload :title) "The agent asks"))

(defun edn-bridge-interact--dialog-text (payload)
  "Insert the message of the dialog in PAYLOAD."
  (when-let ((text (plist-get payload :message)))
    (insert text "\n"))
  (edn-bridge-interact--options-text payload))

(defconst edn-bridge-interact--kinds
  `(("ask" edn-bridge-interact--prompt edn-bridge-interact--nothing
     ,(lambda (_payload)
        '(("Answer" edn-bridge-interact--ask)
          ("Answer with the draft" edn-bridge-interact--ask-draft))))
    ("confirm" edn-bridge-interact--prompt edn-bridge-interact--nothing
     ,(lambda (payload)
        (let ((answers
               `(("Yes (y)" ,(edn-bridge-interact--answerer '(:ok t)))
                 ("No (n)" ,(edn-bridge-interact--answerer '(:ok :false))))))
          (if (edn-bridge-edn-true-p (plist-get payload :default))
              answers
            (reverse answers)))))
    ("select" edn-bridge-interact--prompt edn-bridge-interact--options-text
     edn-bridge-interact--select-answers)
    ("approve"
     ,(lambda (payload _kind)
        (format "Allow %s?" (or (plist-get payload :tool) "this call")))
     edn-bridge-interact--approval-text
     edn-bridge-interact--approval-answers)
    ("auth.device-code"
     ,(lambda (payload _kind)
        (format "Log in to %s"
                (edn-bridge-chat-word (plist-get payload :provider))))
     edn-bridge-interact--device-text
     edn-bridge-interact--device-answers)
    ("auth.password" edn-bridge-interact--prompt
     edn-bridge-interact--password-text
     ,(lambda (_payload)
        '(("Enter the API key or code" edn-bridge-interact--password))))
    ("grant-stage-tool"
     ,(lambda (payload _kind)
        (format "Grant %s to this stage, once?" (plist-get payload :tool)))
     ,(edn-bridge-interact--facts-of
       '(:args-summary "call") '(:reason "reason")
       '(:stage-execution-id "stage") '(:attempt "attempt"))
     ,(lambda (_payload)
        `(("Grant (y)" ,(edn-bridge-interact--answerer '(:outcome "approve")))
          ("Deny (n)" ,(edn-bridge-interact--denier))
          ("Later" ,(edn-bridge-interact--answerer '(:outcome "defer"))))))
    ("approve-subagent-envelope"
     edn-bridge-interact--subagent-title
     edn-bridge-interact--subagent-text
     ,(lambda (_payload)
        `(("Start (y)" ,(edn-bridge-interact--answerer '(:outcome "approve")))
          ("Deny (n)" ,(edn-bridge-interact--denier)))))
    ("dialog-confirm" edn-bridge-interact--dialog-title
     edn-bridge-interact--dialog-text
     ,(lambda (_payload)
        `(("Yes (y)" ,(edn-bridge-interact--answerer '(:result t)))
          ("No (n)" ,(edn-bridge-interact--answerer '(:result :false))))))
    ("dialog-select" edn-bridge-interact--dialog-title
     edn-bridge-interact--dialog-text
     ,(lambda (payload)
        (seq-map (lambda (option)
                   (list (plist-get option :label)
                         (edn-bridge-interact--answerer
                          (list :result (plist-get option :value)))))
                 (plist-get payload :options))))
    ("dialog-input" edn-bridge-interact--dialog-title
     edn-bridge-interact--dialog-text
     ,(lambda (payload)
        `(("Answer"
           ,(lambda (question)
              (edn-bridge-interact--answer
               question
               (list :result
                     (read-string (edn-bridge-interact--prompting
                                   question
                                   (format "%s: " (plist-get payload :title)))
                                  nil nil
                                  (plist-get payload :placeholder)))))))))
    ("unknown"
     ,(lambda (_payload kind)
        (format "A question of the kind %s, which this version does not know"
                kind))
     edn-bridge-interact--facts
     ignore))
  "Kinds of questions.
Each is a list of the name and functions of the payload: one that returns
the title (it also gets the name), one that inserts what there is to
know, and one that returns the answers, lists of a label and a function of
the question.")

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
  "Say yes to the question at point, or else to the oldest."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--choose-answer "y"))

(defun edn-bridge-interact-accept-for-session ()
  "Allow what the question at point asks for in the whole session."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-interact--choose-answer "s"))

(defun edn-bridge-interact-refuse ()
  "Say no to the question at point, or else to the oldest."
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
  "Cancel the question at point, or else the oldest."
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
(edn-bridge-chat-handle "tool/result" #'edn-bridge-interact--on-result)
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
