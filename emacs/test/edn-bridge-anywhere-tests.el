;;; edn-bridge-anywhere-tests.el --- Tests of commands for other buffers  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defvar flymake-mode)

(defmacro edn-bridge-anywhere-tests-with-side (spec &rest body)
  "Run BODY with a connection for questions beside the chat.
SPEC is (CONN SENT), as in `edn-bridge-test-with-connection'."
  (declare (indent 1))
  (pcase-let ((`(,conn ,sent) spec))
    `(edn-bridge-test-with-connection (,conn ,sent events)
       (let* ((side (make-edn-bridge-side :conn ,conn :ready t
                                          :folder default-directory))
              (edn-bridge-side--all (list side)))
         (setf (edn-bridge-rpc-connection-context ,conn) side
               (edn-bridge-rpc-connection-on-event ,conn)
               #'edn-bridge-side--on-event)
         ,@body))))

(defun edn-bridge-anywhere-tests-answer (conn text)
  "Have the question that is asked on CONN answered with TEXT."
  (edn-bridge-side--on-event conn "assistant/delta" (list :text text))
  (edn-bridge-side--on-batch conn)
  (edn-bridge-side--on-event conn "assistant/message"
                             (list :content text :stop-reason "end-turn"))
  (edn-bridge-side--on-event conn "session/updated" '(:is-streaming :false)))

(defun edn-bridge-anywhere-tests-prompts (sent)
  "Return the texts that were asked, in the order in which they were SENT."
  (mapcar (lambda (frame) (plist-get (plist-get frame :params) :message))
          (reverse (seq-filter (lambda (frame)
                                 (equal (plist-get frame :op) "prompt"))
                               sent))))

(ert-deftest edn-bridge-side-asks-one-thing-at-a-time ()
  (edn-bridge-anywhere-tests-with-side (conn sent)
    (let ((got nil))
      (dolist (text '("a" "b" "c"))
        (edn-bridge-side-ask text :on-done
                             (lambda (answer reason)
                               (push (list text answer reason) got))))
      (should (equal (edn-bridge-anywhere-tests-prompts sent) '("a")))
      (edn-bridge-anywhere-tests-answer conn "A")
      (should (equal (edn-bridge-anywhere-tests-prompts sent) '("a" "b")))
      (edn-bridge-side--on-event conn "assistant/message"
                                 '(:error-message "It broke"))
      (edn-bridge-side--on-close conn "gone")
      (should (equal (reverse got)
                     '(("a" "A" nil) ("b" nil "It broke")
                       ("c" nil "Disconnected: gone"))))
      (should-not edn-bridge-side--all))))

(ert-deftest edn-bridge-side-answer-is-what-follows-the-last-call ()
  (edn-bridge-anywhere-tests-with-side (conn _sent)
    (let ((got nil))
      (edn-bridge-side-ask "a" :on-done (lambda (answer _) (setq got answer)))
      (edn-bridge-side--on-event conn "assistant/delta" '(:text "I look."))
      (edn-bridge-side--on-event conn "assistant/message"
                                 '(:stop-reason "tool-use"))
      (edn-bridge-side--on-event conn "session/updated" '(:is-streaming t))
      (should-not got)
      (edn-bridge-anywhere-tests-answer conn "Done.")
      (should (equal got "Done.")))))

;;;; Rewriting

(defmacro edn-bridge-anywhere-tests-with-rewrite (answer &rest body)
  "Run BODY in a buffer whose second line is rewritten by ANSWER.
The buffer with the difference is bound to `diff'."
  (declare (indent 1))
  `(edn-bridge-anywhere-tests-with-side (conn sent)
     (let ((edn-bridge-ask--chat-function #'current-buffer)
           (inhibit-message t))
       (with-temp-buffer
         (insert "one\n  two\nthree\n")
         (setq buffer-undo-list nil)
         (save-window-excursion
           (edn-bridge-rewrite-region 5 11 "in capitals")
           (should (string-search "  two" (car (edn-bridge-anywhere-tests-prompts
                                                sent))))
           (edn-bridge-anywhere-tests-answer conn ,answer)
           (let ((diff (get-buffer "*edn-bridge rewrite*")))
             (unwind-protect (progn ,@body)
               (dolist (name '("*edn-bridge rewrite*" "*edn-bridge proposal*"))
                 (when (get-buffer name)
                   (with-current-buffer name (set-buffer-modified-p nil))
                   (kill-buffer name))))))))))

(ert-deftest edn-bridge-rewrite-waits-to-be-accepted ()
  (edn-bridge-anywhere-tests-with-rewrite "Here:\n```\n  TWO\n```\nDone."
    (should (equal (buffer-string) "one\n  two\nthree\n"))
    (with-current-buffer diff
      (should (string-search "\n-  two\n+  TWO" (buffer-string)))
      (should (eq (key-binding "a") #'edn-bridge-rewrite-accept))
      (should (eq (key-binding "q") #'edn-bridge-rewrite-reject))
      (edn-bridge-rewrite-accept))
    (should (equal (buffer-string) "one\n  TWO\nthree\n"))
    (should-not (overlays-in (point-min) (point-max)))
    (should-not (buffer-live-p diff))
    (primitive-undo 2 buffer-undo-list)
    (should (equal (buffer-string) "one\n  two\nthree\n"))))

(ert-deftest edn-bridge-rewrite-can-be-edited-or-rejected ()
  (edn-bridge-anywhere-tests-with-rewrite "  TWO"
    (with-current-buffer diff
      (edn-bridge-rewrite-edit)
      (with-current-buffer "*edn-bridge proposal*"
        (goto-char (point-min))
        (insert "mine")
        (edn-bridge-rewrite-accept)))
    (should (equal (buffer-string) "one\nmine  TWO\nthree\n")))
  (edn-bridge-anywhere-tests-with-rewrite "  TWO"
    (with-current-buffer diff
      (edn-bridge-rewrite-reject))
    (should (equal (buffer-string) "one\n  two\nthree\n"))
    (should-not (get-buffer "*edn-bridge proposal*"))))

(ert-deftest edn-bridge-rewrite-leaves-changed-text-alone ()
  (edn-bridge-anywhere-tests-with-rewrite "  TWO"
    (goto-char 7)
    (insert "x")
    (with-current-buffer diff
      (should-error (edn-bridge-rewrite-accept) :type 'user-error))
    (should (equal (buffer-string) "one\n  xtwo\nthree\n"))))

(ert-deftest edn-bridge-rewrite-shows-what-cannot-be-seen ()
  (edn-bridge-anywhere-tests-with-rewrite "  T\u202EWO"
    (with-current-buffer diff
      (goto-char (point-min))
      (search-forward "\u202E")
      (should (get-text-property (1- (point)) 'display)))))

;;;; The message of a commit

(ert-deftest edn-bridge-commit-message-is-of-what-is-staged ()
  (skip-unless (executable-find "git"))
  (let ((default-directory (file-name-as-directory
                            (make-temp-file "edn-bridge" t)))
        (inhibit-message t)
        (kill-ring nil))
    (unwind-protect
        (edn-bridge-anywhere-tests-with-side (conn sent)
          (let ((edn-bridge-ask--chat-function #'current-buffer))
            (call-process "git" nil nil nil "init" "-q")
            (write-region "new line\n" nil "a.txt" nil 'quiet)
            (call-process "git" nil nil nil "add" "a.txt")
            (with-temp-buffer
              (edn-bridge-commit-message)
              (edn-bridge-test-wait (edn-bridge-anywhere-tests-prompts sent))
              (should (string-search "\n+new line"
                                     (car (edn-bridge-anywhere-tests-prompts
                                           sent))))
              (edn-bridge-anywhere-tests-answer conn "```\nAdd a\n\nWhy.\n```")
              (should (equal (car kill-ring) "Add a\n\nWhy.")))
            (with-temp-buffer
              (insert "\n# Comment\n")
              (setq buffer-file-name "/x/COMMIT_EDITMSG")
              (edn-bridge-rewrite--take-message (current-buffer) "Add b" nil)
              (should (equal (buffer-string) "Add b\n\n# Comment\n"))
              (set-buffer-modified-p nil))))
      (delete-directory default-directory t))))

;;;; Errors at point

(ert-deftest edn-bridge-ask-finds-what-checkers-say ()
  (with-temp-buffer
    (emacs-lisp-mode)
    (insert "(defun f ()\n  (undefined))\n")
    (goto-char (point-min))
    (let ((flymake-mode t))
      (cl-letf (((symbol-function 'flymake-diagnostics)
                 (lambda (&rest _) '(it)))
                ((symbol-function 'flymake-diagnostic-text)
                 (lambda (_) "f is wrong")))
        (should (equal (edn-bridge-ask--errors) '("f is wrong")))
        (should (equal (edn-bridge-ask--about '("f is wrong")
                                              (edn-bridge-ask--subject)
                                              (current-buffer))
                       (concat "> f is wrong\n(at line 1)\n\n"
                               (buffer-name) ":1-2\n```emacs-lisp\n"
                               "(defun f ()\n  (undefined))\n```")))))
    (should-not (edn-bridge-ask--errors))
    (should-error (edn-bridge-fix) :type 'user-error)
    (should-error (edn-bridge-add-error) :type 'user-error)))

;;;; Ediff

(ert-deftest edn-bridge-ediff-applies-what-is-proposed ()
  (pcase-dolist
      (`(,old ,new)
       `(("a\nb\nc\n" "a\nB\nc\n") ("" "a\nb\n") ("a\nb\n" "")
         ("a\nb" "a\nb\n") ("a\nb\n" "a\nB")
         (,(mapconcat #'number-to-string (number-sequence 1 60) "\n")
          ,(mapconcat #'number-to-string
                      (append '(0) (number-sequence 1 20)
                              (number-sequence 22 50) '(50.5)
                              (number-sequence 51 59))
                      "\n"))))
    (let ((diff (edn-bridge-anywhere-tests-diff old new)))
      (ert-info (diff)
        (should (equal (edn-bridge-ediff-apply old diff) new)))))
  (should-error (edn-bridge-ediff-apply
                 "x\n" "--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-y\n+z\n")
                :type 'user-error))

(defun edn-bridge-anywhere-tests-diff (old new)
  "Return the unified diff of OLD and NEW."
  (let ((a (make-temp-file "edn-bridge" nil nil old))
        (b (make-temp-file "edn-bridge" nil nil new)))
    (unwind-protect
        (with-temp-buffer
          (call-process "diff" nil t nil "-u" a b)
          (buffer-string))
      (delete-file a)
      (delete-file b))))

(ert-deftest edn-bridge-ediff-is-offered-for-an-edit-of-one-file ()
  (let ((default-directory (file-name-as-directory
                            (make-temp-file "edn-bridge" t)))
        (shown nil))
    (unwind-protect
        (progn
          (write-region "a\nb\n" nil "f.el" nil 'quiet)
          (cl-letf (((symbol-function 'ediff-buffers)
                     (lambda (a b &rest _)
                       (setq shown
                             (mapcar (lambda (buffer)
                                       (with-current-buffer buffer
                                         (prog1 (list (buffer-string)
                                                      major-mode)
                                           (kill-buffer))))
                                     (list a b))))))
            (edn-bridge-test-with-chat (conn _sent)
              (edn-bridge-test-ask
               conn "approve"
               '(:tool "edit" :paths ["f.el"]
                       :diff "--- a/f.el\n+++ b/f.el\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"))
              (edn-bridge-test-push "Compare with Ediff")
              (should (equal shown '(("a\nb\n" text-mode)
                                     ("a\nc\n" text-mode)))))
            (edn-bridge-test-with-chat (conn _sent)
              (edn-bridge-test-ask
               conn "approve" '(:tool "bash" :command "ls"))
              (should-not (string-search "Ediff"
                                         (edn-bridge-test-transcript))))))
      (delete-directory default-directory t))))

;;;; The side window, and Evil

(ert-deftest edn-bridge-toggle-shows-and-hides-the-chat ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let ((chat (current-buffer)))
      (save-window-excursion
        (cl-letf (((symbol-function 'edn-bridge-chat-buffer)
                   (lambda (&rest _) chat)))
          (with-temp-buffer
            (edn-bridge-toggle)
            (should (window-parameter (get-buffer-window chat) 'window-side))
            (edn-bridge-toggle)
            (should-not (get-buffer-window chat))))))))

(ert-deftest edn-bridge-chat-begins-in-evil-insert-state ()
  (let ((states nil))
    (cl-letf (((symbol-function 'evil-initial-state)
               (lambda (mode) (cdr (assq mode states))))
              ((symbol-function 'evil-set-initial-state)
               (lambda (mode state) (push (cons mode state) states))))
      (with-temp-buffer (edn-bridge-chat-mode))
      (should (equal states '((edn-bridge-chat-mode . insert))))
      (setq states '((edn-bridge-chat-mode . emacs)))
      (with-temp-buffer (edn-bridge-chat-mode))
      (should (equal states '((edn-bridge-chat-mode . emacs)))))))

(ert-deftest edn-bridge-chat-keys-have-labels ()
  (let ((unlabelled nil))
    (map-keymap (lambda (event definition)
                  (when (and (symbolp definition)
                             (eq (lookup-key edn-bridge-chat-mode-map
                                             (vector ?\C-c event))
                                 definition)
                             (rassq definition
                                    (mapcar (lambda (row)
                                              (cons t (nth 1 row)))
                                            (mapcan (lambda (group)
                                                      (copy-sequence
                                                       (cddr group)))
                                                    edn-bridge--menu))))
                    (push definition unlabelled)))
                (lookup-key edn-bridge-chat-mode-map (kbd "C-c")))
    (should-not unlabelled)))

(ert-deftest edn-bridge-modes-that-erase-are-no-commands ()
  (dolist (mode '(edn-bridge-chat-mode edn-bridge-tree-mode
                  edn-bridge-jobs-mode edn-bridge-jobs-view-mode
                  edn-bridge-rewrite--mode edn-bridge-rewrite--edit-mode))
    (should-not (commandp mode))))

(ert-deftest edn-bridge-command-map-is-on-no-key ()
  (should-not (where-is-internal 'edn-bridge-command-map))
  (should (keymapp 'edn-bridge-command-map))
  (should (eq (lookup-key edn-bridge-command-map "w")
              #'edn-bridge-rewrite-region)))

(provide 'edn-bridge-anywhere-tests)

;;; edn-bridge-anywhere-tests.el ends here
