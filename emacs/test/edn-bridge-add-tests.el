;;; edn-bridge-add-tests.el --- What is added to a draft  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'bytecomp)
(require 'comint)
(require 'dired)
(require 'eshell)

(defvar eshell-directory-name)

(defmacro edn-bridge-add-tests-from (setup &rest body)
  "Run BODY in another buffer than the chat's, after SETUP; return the draft."
  (declare (indent 1) (debug t))
  `(edn-bridge-test-with-chat (_conn _sent)
     (let* ((chat (current-buffer))
            (edn-bridge-ask--chat-function (lambda () chat)))
       (save-window-excursion
         (with-temp-buffer
           (switch-to-buffer (current-buffer))
           ,setup
           ,@body))
       (with-current-buffer chat
         (edn-bridge-transcript-draft)))))

(ert-deftest edn-bridge-add-at-point-takes-what-is-there ()
  ;; The region.
  (should (string-match-p
           ":1\n```text\none\n```"
           (edn-bridge-add-tests-from
               (progn (text-mode) (insert "one\ntwo\n"))
             (let ((transient-mark-mode t))
               (set-mark (point-min))
               (goto-char 5)
               (activate-mark)
               (edn-bridge-add-at-point)))))
  ;; A definition.
  (should (string-match-p
           "```emacs-lisp\n(defun a ()\n  1)\n```"
           (edn-bridge-add-tests-from
               (progn (emacs-lisp-mode)
                      (insert "(defun a ()\n  1)\n\n(defun b ()\n  2)\n")
                      (goto-char 3))
             (edn-bridge-add-at-point))))
  ;; Marked files.
  (let ((folder (file-name-as-directory (make-temp-file "edn-add" t))))
    (unwind-protect
        (progn
          (dolist (name '("a.txt" "b.txt" "c.txt"))
            (write-region "x" nil (expand-file-name name folder) nil 'quiet))
          (should (string-match-p
                   "\\`@.*a.txt @.*c.txt \\'"
                   (edn-bridge-add-tests-from nil
                     (let ((dired (dired-noselect folder)))
                       (unwind-protect
                           (with-current-buffer dired
                             (dired-mark-files-regexp "[ac]\\.txt")
                             (edn-bridge-add-at-point))
                         (kill-buffer dired)))))))
      (delete-directory folder t)))
  (should-error (edn-bridge-add-tests-from nil (edn-bridge-add-at-point))
                :type 'user-error))

(ert-deftest edn-bridge-add-output-is-the-last-of-the-shell ()
  (should
   (equal
    (edn-bridge-add-tests-from
        (let ((process-connection-type nil))
          (make-comint-in-buffer "sh" (current-buffer) "sh")
          (set-process-query-on-exit-flag (get-buffer-process (current-buffer))
                                          nil)
          (pcase-dolist (`(,command . ,output)
                         '(("echo first" . "^first\n")
                           ("echo 'last ```'; echo end" . "^end\n")))
            (goto-char (point-max))
            (insert command)
            (comint-send-input)
            (edn-bridge-test-wait (string-match-p output (buffer-string)))))
      (edn-bridge-add-output))
    "Output of `echo 'last ```'; echo end`:\n````\nlast ```\nend\n````\n")))

(ert-deftest edn-bridge-add-output-is-that-of-eshell ()
  (should
   (string-match-p
    "\\`Output of `echo hello`:\n```\nhello\n```\n\\'"
    (edn-bridge-add-tests-from
        (let ((eshell-directory-name (make-temp-file "edn-eshell" t)))
          (eshell-mode)
          (goto-char (point-max))
          (insert "echo hello")
          (eshell-send-input)
          (edn-bridge-test-wait (string-match-p "^hello\n" (buffer-string))))
      (edn-bridge-add-at-point)))))

(ert-deftest edn-bridge-add-output-that-is-long-is-truncated ()
  (let ((draft (edn-bridge-add-tests-from
                   (progn (compilation-mode)
                          (let ((inhibit-read-only t))
                            (insert (make-string 30000 ?a) "end")))
                 (edn-bridge-add-output))))
    (should (string-match-p "\\`The last 20000 characters of the output of " draft))
    (should (< (length draft) 20200))
    (should (string-match-p "aend\n```\n\\'" draft))))

(ert-deftest edn-bridge-add-output-is-no-log-of-emacs-itself ()
  (with-temp-buffer
    (emacs-lisp-compilation-mode)
    (should-not (edn-bridge-add--shell-p (current-buffer)))
    (compilation-mode)
    (should (edn-bridge-add--shell-p (current-buffer)))))

(ert-deftest edn-bridge-add-screenshot-goes-with-the-next-message ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let ((edn-bridge-add-screenshot-commands
           '(("no-such-program-anywhere" file)
             ("sh" "-c" "printf picture >\"$0\"" file))))
      (edn-bridge-add-screenshot)
      (edn-bridge-test-wait edn-bridge-input-images)
      (should (equal edn-bridge-input-images
                     (list (list :mime-type "image/png"
                                 :data (base64-encode-string "picture")))))
      (should-not (directory-files temporary-file-directory nil
                                   "\\`edn-bridge-screenshot-")))
    (let ((edn-bridge-add-screenshot-commands nil))
      (should-error (edn-bridge-add-screenshot) :type 'user-error))))

(ert-deftest edn-bridge-compose-writes-the-draft-elsewhere ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((chat (current-buffer)))
      (save-window-excursion
        (switch-to-buffer chat)
        (edn-bridge-transcript-set-draft "half ")
        (dolist (keys '("C-c C-k" "C-c C-c"))
          (set-buffer chat)
          (call-interactively (key-binding (kbd "C-c '")))
          (goto-char (point-max))
          (insert "a thought\n")
          (call-interactively (key-binding (kbd keys)))
          (should (eq (current-buffer) chat))
          (unless sent
            (should (equal (edn-bridge-transcript-draft) "half a thought"))))
        (should (equal (plist-get (plist-get (car sent) :params) :message)
                       "half a thoughta thought"))
        (should (equal (edn-bridge-transcript-draft) ""))))))

(provide 'edn-bridge-add-tests)

;;; edn-bridge-add-tests.el ends here
