;;; edn-bridge-interact-kinds.el --- What each kind of question shows  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; A kind of question is a row of `edn-bridge-interact--kinds': its title, what
;; there is to know, and which answers there are.  The table is at the end;
;; what its rows need stands above it.  How a question is shown, answered and
;; settled, whatever its kind, is in edn-bridge-interact.el.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)
(require 'edn-bridge-markdown-code)
(require 'edn-bridge-tools)
(require 'edn-bridge-tools-output)
(require 'edn-bridge-ediff)
(require 'edn-bridge-interact)

;;;; Facts, one a line

(defun edn-bridge-interact--prompt (payload _kind)
  "Return the prompt in PAYLOAD."
  (or (plist-get payload :prompt) "The agent asks"))

(defun edn-bridge-interact--nothing (_payload)
  "Insert nothing."
  nil)

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

;;;; Approvals

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
      (edn-bridge-interact--insert-command command)
      (edn-bridge-interact--insert-manner payload))
     ((stringp summary)
      (edn-bridge-interact--insert-raised
       (concat "  " (edn-bridge-visible-label summary)))))
    (when (and (seq-empty-p diff) (not (seq-empty-p paths)))
      (edn-bridge-interact--insert-raised
       (concat "  " (mapconcat #'edn-bridge-visible-label paths "\n  "))))
    (when-let ((rule (plist-get payload :suggested-rule)))
      (insert (format "  always: %s\n"
                      (edn-bridge-visible-label
                       (edn-bridge-interact--rule-label rule command)))))))

(defun edn-bridge-interact--insert-command (command)
  "Insert COMMAND, of a shell, as the code that it is."
  (let ((start (point)))
    (edn-bridge-interact--insert-raised (edn-bridge-visible-break command 0))
    (edn-bridge-markdown-code-add start (point) "sh")))

(defun edn-bridge-interact--insert-raised (text)
  "Insert TEXT, what is asked about, on lines that are set off."
  (insert (propertize (concat text "\n") 'face 'edn-bridge-raised)))

(defun edn-bridge-interact--insert-manner (payload)
  "Insert how the command of PAYLOAD would run, where that is not as usual."
  (let* ((id (plist-get payload :tool-id))
         (timeout (edn-bridge-tools-argument id :timeout-seconds)))
    (when (edn-bridge-edn-true-p (or (edn-bridge-tools-argument id :background)
                                     (plist-get payload :background)))
      (edn-bridge-interact--fact "how" "In the background; the turn goes on"))
    (when (numberp timeout)
      (edn-bridge-interact--fact "time" (format "At most %s seconds" timeout)))))

(defun edn-bridge-interact--rule-label (rule command)
  "Return in words what RULE permits, where COMMAND, or nil, is asked about.
A rule that says more than there are words for is shown as it is."
  (let ((tool (and (consp rule) (plist-get rule :tool)))
        (path (and (consp rule) (plist-get rule :path)))
        (host (and (consp rule) (plist-get rule :host)))
        (words (and (consp rule) (plist-get rule :command))))
    (cond
     ((stringp rule) rule)
     ((or (not (stringp tool))
          (not (eq (plist-get rule :decision) :allow))
          (cl-loop for (key _value) on rule by #'cddr
                   thereis (not (memq key '(:decision :tool :command :path
                                                      :host :exact))))
          (cdr (delq nil (list path host words))))
      (edn-bridge-edn-print-string rule))
     ((stringp path) (format "%s of %s" tool path))
     ((stringp host) (format "%s from the host %s" tool host))
     ((not (stringp words)) (edn-bridge-edn-print-string rule))
     ((not (edn-bridge-edn-true-p (plist-get rule :exact)))
      (format "each command that begins with: %s" words))
     ((equal words command) "this command, word for word")
     (t (format "this command, word for word: %s" words)))))

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

;;;; Proposed texts

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
     (edn-bridge-interact--open-proposal
      (or (edn-bridge-interact--of-button button)
          (user-error "This question was answered"))
      proposal function))))

(defun edn-bridge-interact--open-proposal (question proposal function)
  "Have PROPOSAL edited by FUNCTION, as the answer to QUESTION."
  (edn-bridge-interact--with-proposal
   proposal
   (lambda (content)
     (edn-bridge-interact--edit question proposal content function))
   (edn-bridge-interact--question-session question)))

(defconst edn-bridge-interact--open-seconds 0.5
  "For how long nothing is typed before a proposal opens by itself.")

(defun edn-bridge-interact--on-shown (question)
  "Have the proposal of QUESTION, which was shown, opened if the user wants it."
  (let ((function (pcase edn-bridge-edit-opens
                    ('ediff #'edn-bridge-ediff-edit)
                    ('smerge #'edn-bridge-ediff-merge)))
        (proposal (plist-get (edn-bridge-interact--question-payload question)
                             :proposal))
        (chat (current-buffer)))
    (when (and function
               (consp proposal)
               (stringp (plist-get proposal :path)))
      (run-with-idle-timer
       edn-bridge-interact--open-seconds nil
       (lambda ()
         (when (and (buffer-live-p chat)
                    (get-buffer-window chat)
                    (not (active-minibuffer-window)))
           (with-current-buffer chat
             (when (memq question edn-bridge-interact--questions)
               (edn-bridge-interact--open-proposal question proposal
                                                   function)))))))))

(add-hook 'edn-bridge-interact-shown-functions #'edn-bridge-interact--on-shown)

(defun edn-bridge-interact--of-button (button)
  "Return the waiting question that BUTTON is of, or nil."
  (edn-bridge-interact--find (get-text-property (button-start button)
                                                'edn-bridge-question)))

(defun edn-bridge-interact--session (button)
  "Return the id of the session that asks at BUTTON, nil for this chat's."
  (when-let ((question (edn-bridge-interact--of-button button)))
    (edn-bridge-interact--question-session question)))

(defconst edn-bridge-interact--proposal-limit (* 2 1024 1024)
  "Largest proposal, in bytes, that can be edited.")

(defun edn-bridge-interact--with-proposal (proposal function session)
  "Call FUNCTION with the whole text of PROPOSAL of SESSION, nil for this one."
  (let ((content (plist-get proposal :content)))
    (if (stringp content)
        (funcall function content)
      (edn-bridge-tools-read-output
       (plist-get proposal :handle) edn-bridge-interact--proposal-limit
       ;; Ediff may ask something.
       (lambda (content)
         (edn-bridge-rpc-later (lambda () (funcall function content))))
       session))))

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

(edn-bridge-chat-handle "tool/result" #'edn-bridge-interact--on-result)

;;;; Subagents

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
    (if (plist-get payload :agent)
        (edn-bridge-interact--fact "agent" (plist-get payload :agent))
      (edn-bridge-interact--fact
       "model" (edn-bridge-interact--model (plist-get payload :model))))
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

;;;; Texts and choices

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

(defun edn-bridge-interact--options-text (payload)
  "Insert the options in PAYLOAD, numbered."
  (let ((index 0))
    (seq-do (lambda (option)
              (cl-incf index)
              (insert (format "  %d. %s" index
                              (edn-bridge-visible-label
                               (plist-get option :label))))
              (when-let ((text (plist-get option :description)))
                (insert "  " (edn-bridge-visible-label text)))
              (insert "\n"))
            (plist-get payload :options))))

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

;;;; Logins

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
                            'face 'edn-bridge-button 'follow-link t
                            'action (lambda (_button) (browse-url url)))
        (insert "\n")))))

(defun edn-bridge-interact--device-text (payload)
  "Insert where the login of PAYLOAD is to be made, and by which code."
  (let ((url (plist-get payload :url)))
    (insert "  ")
    (insert-text-button url
                        'face 'edn-bridge-button 'follow-link t
                        'action (lambda (_button) (browse-url url)))
    (insert "\n  code: "
            (propertize (or (plist-get payload :code) "") 'face 'edn-bridge-title)
            "\n")))

(defun edn-bridge-interact--device-answers (payload)
  "Return the answers to PAYLOAD of a login by a device code."
  `(("Open the page and copy the code"
     ,(lambda (_question)
        (kill-new (plist-get payload :code))
        (browse-url (plist-get payload :url))))
    ("Done" ,(edn-bridge-interact--answerer '(:done t)))))

;;;; Dialogs

(defun edn-bridge-interact--dialog-title (payload _kind)
  "Return the title of the dialog in PAYLOAD."
  (or (plist-get payload :title) "The agent asks"))

(defun edn-bridge-interact--dialog-text (payload)
  "Insert the message of the dialog in PAYLOAD."
  (when-let ((text (plist-get payload :message)))
    (insert text "\n"))
  (edn-bridge-interact--options-text payload))

;;;; The table

(setq
 edn-bridge-interact--kinds
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
    ignore)))

(provide 'edn-bridge-interact-kinds)

;;; edn-bridge-interact-kinds.el ends here
