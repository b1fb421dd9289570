;;; edn-bridge-rules.el --- What was allowed, and by whom  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Two buffers: the rules that decide what tools may do without a question,
;; where a key takes one back, and the record of what was asked, allowed and
;; refused.

;;; Code:

(require 'cl-lib)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-view)

(defvar-local edn-bridge-rules--chat nil
  "The chat buffer that this buffer is about.")

(defmacro edn-bridge-rules--in-chat (&rest body)
  "Run BODY in the chat buffer that this buffer is about."
  (declare (indent 0) (debug t))
  `(progn
     (unless (buffer-live-p edn-bridge-rules--chat)
       (user-error "The chat is gone"))
     (with-current-buffer edn-bridge-rules--chat
       ,@body)))

(defun edn-bridge-rules--ask (op params show)
  "Send OP with PARAMS, and call SHOW with the answer in this buffer."
  (edn-bridge-chat-ask-for edn-bridge-rules--chat op params show))

(defun edn-bridge-rules--open (name mode ask)
  "Show the buffer NAME of this chat in MODE, filled by the function ASK."
  (edn-bridge-chat-current)
  (let ((chat (current-buffer))
        (buffer (get-buffer-create
                 (format "*%s %s*" (edn-bridge-chat-name) name))))
    (with-current-buffer buffer
      (funcall mode)
      (edn-bridge-visible-setup)
      (setq edn-bridge-rules--chat chat)
      (funcall ask))
    (pop-to-buffer buffer)))

;;;; Rules

(edn-bridge-define-view-mode edn-bridge-rules-mode special-mode "Rules"
  "Major mode of the rules that hold in a session."
  :keys (("d" edn-bridge-rules-remove "remove")
         ("a" edn-bridge-rules-show-audit "audit"))
  (setq-local truncate-lines nil
              word-wrap t
              revert-buffer-function #'edn-bridge-rules--revert))

(defun edn-bridge-rules ()
  "Show the rules that hold in this chat's session, in their order."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-rules--open "rules" #'edn-bridge-rules-mode
                          #'edn-bridge-rules--revert))

(defun edn-bridge-rules--revert (&rest _)
  "Ask for the rules again and show them."
  (edn-bridge-rules--ask "list_rules" nil #'edn-bridge-rules--show))

(defun edn-bridge-rules--show (data)
  "Show the rules in DATA."
  (let ((inhibit-read-only t)
        (line (line-number-at-pos)))
    (erase-buffer)
    (seq-do #'edn-bridge-rules--insert (plist-get data :rules))
    (when (= (point-min) (point-max))
      (insert "No rule holds here; the permission mode alone decides.\n"))
    (goto-char (point-min))
    (forward-line (1- line))
    (when (eobp)
      (forward-line -1))))

(defun edn-bridge-rules--source (source)
  "Return what SOURCE of a rule is called for people."
  (pcase (edn-bridge-chat-word source)
    ("configuration" "from the configuration")
    ("kept" "for this folder")
    ("session" "for this session")
    (word (or word ""))))

(defun edn-bridge-rules--insert (rule)
  "Insert the line of RULE."
  (let ((start (point))
        (holds (not (eq (plist-get rule :in-force) :false))))
    (insert (propertize (edn-bridge-visible-label
                         (or (plist-get rule :text)
                             (edn-bridge-edn-print-string
                              (plist-get rule :rule))))
                        'face (if holds 'default 'edn-bridge-muted))
            (propertize (concat "  " (edn-bridge-rules--source
                                      (plist-get rule :source)))
                        'face 'edn-bridge-muted)
            (if holds
                ""
              (propertize (concat "  does not hold"
                                  (if-let ((reason (plist-get rule :reason)))
                                      (concat ": " (edn-bridge-visible-label
                                                    reason))
                                    ""))
                          'face 'edn-bridge-accent))
            "\n")
    (put-text-property start (point) 'edn-bridge-rule rule)))

(defun edn-bridge-rules-remove ()
  "Take the rule at point back, after a question."
  (interactive nil edn-bridge-rules-mode)
  (let ((rule (or (get-text-property (line-beginning-position)
                                     'edn-bridge-rule)
                  (user-error "There is no rule on this line"))))
    (unless (edn-bridge-edn-true-p (plist-get rule :removable))
      (user-error "This rule is the configuration's; take it out of the file"))
    (when (yes-or-no-p (format "Take back: %s? "
                               (edn-bridge-visible-label
                                (or (plist-get rule :text) "this rule"))))
      (edn-bridge-rules--ask "remove_rule"
                             (list :rule-id (plist-get rule :rule-id))
                             (lambda (_data)
                               (edn-bridge-rules--revert)
                               (message "The rule is taken back"))))))

(defun edn-bridge-rules-show-audit ()
  "Show what was asked, allowed and refused."
  (interactive nil edn-bridge-rules-mode)
  (edn-bridge-rules--in-chat
    (edn-bridge-audit)))

;;;; The audit

(defvar-local edn-bridge-rules--scope "session"
  "Whose record is shown: that of the \"session\", or of \"all\".")

(edn-bridge-define-view-mode edn-bridge-audit-mode special-mode "Audit"
  "Major mode of the record of what was asked, allowed and refused."
  :keys (("s" edn-bridge-audit-toggle-scope "this session or all"))
  (setq-local truncate-lines nil
              word-wrap t
              revert-buffer-function #'edn-bridge-rules--revert-audit))

(defun edn-bridge-audit ()
  "Show what was asked in this chat's session, and who allowed or refused it."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-rules--open "audit" #'edn-bridge-audit-mode
                          #'edn-bridge-rules--revert-audit))

(defun edn-bridge-rules--revert-audit (&rest _)
  "Ask for the newest records again and show them."
  (edn-bridge-rules--ask-audit nil
                               (lambda (data)
                                 (let ((inhibit-read-only t))
                                   (erase-buffer))
                                 (edn-bridge-rules--add-audit data)
                                 (goto-char (point-min)))))

(defun edn-bridge-rules--ask-audit (before show)
  "Ask for the records before BEFORE, or the newest, and call SHOW with them."
  (edn-bridge-rules--ask "list_audit"
                         (append (list :scope edn-bridge-rules--scope)
                                 (and before (list :before before)))
                         show))

(defun edn-bridge-rules--add-audit (data)
  "Add the records in DATA, and a button for the older ones."
  (let ((inhibit-read-only t)
        (next (plist-get data :next)))
    (save-excursion
      (goto-char (point-max))
      (seq-do #'edn-bridge-rules--insert-record (plist-get data :records))
      (when (= (point-min) (point-max))
        (insert "Nothing was asked yet.\n"))
      (when next
        (insert-text-button
         "[Older ones]" 'face 'edn-bridge-button 'follow-link t
         'action (lambda (button)
                   (let ((inhibit-read-only t))
                     (delete-region (button-start button) (button-end button)))
                   (edn-bridge-rules--ask-audit
                    next #'edn-bridge-rules--add-audit)))))))

(defconst edn-bridge-rules--known
  '(:record :kind :tool :request :outcome :requested-at :answered-at :session-id)
  "Keys of a record that have a place of their own in its line.")

(defun edn-bridge-rules--insert-record (record)
  "Insert RECORD of the audit: a line, and its other facts indented below it."
  (insert (propertize (or (edn-bridge-chat-time
                           (or (plist-get record :answered-at)
                               (plist-get record :requested-at)
                               (plist-get record :at)))
                          "")
                      'face 'edn-bridge-muted)
          "  "
          (propertize (edn-bridge-visible-label
                       (string-join
                        (delq nil
                              (list (edn-bridge-chat-word
                                     (plist-get record :record))
                                    (edn-bridge-chat-word
                                     (plist-get record :kind))
                                    (edn-bridge-chat-word
                                     (plist-get record :tool))))
                        " "))
                      'face 'edn-bridge-title)
          (let ((request (plist-get record :request)))
            (if (stringp request)
                (concat "  " (truncate-string-to-width
                              (edn-bridge-visible-label request)
                              300 nil nil "…"))
              ""))
          "  "
          (let ((outcome (edn-bridge-chat-word (plist-get record :outcome))))
            (propertize (edn-bridge-visible-label (or outcome ""))
                        'face (if (member outcome '("deny" "denied" "reject"
                                                    "rejected"))
                                  'edn-bridge-error
                                'edn-bridge-success)))
          "\n")
  (cl-loop for (key value) on record by #'cddr
           unless (or (memq key edn-bridge-rules--known)
                      (memq value '(nil :false)))
           do (insert "    "
                      (propertize (edn-bridge-chat-word key) 'face 'edn-bridge-muted)
                      " "
                      (truncate-string-to-width
                       (edn-bridge-visible-label
                        (if (stringp value)
                            value
                          (edn-bridge-edn-print-string value)))
                       300 nil nil "…")
                      "\n")))

(defun edn-bridge-audit-toggle-scope ()
  "Show the record of all sessions, or of this chat's alone."
  (interactive nil edn-bridge-audit-mode)
  (setq edn-bridge-rules--scope
        (if (equal edn-bridge-rules--scope "all") "session" "all"))
  (edn-bridge-rules--revert-audit)
  (message (if (equal edn-bridge-rules--scope "all")
               "The record of all sessions"
             "The record of this session")))

(edn-bridge-input-handle "rules" #'edn-bridge-rules)
(edn-bridge-input-handle "audit" #'edn-bridge-audit)

(provide 'edn-bridge-rules)

;;; edn-bridge-rules.el ends here
