;;; edn-bridge-package-tests.el --- The package can be installed  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-package-tests-emacs (&rest args)
  "Run Emacs in batch with ARGS; return its status and output."
  (with-temp-buffer
    (list (apply #'call-process
                 (expand-file-name invocation-name invocation-directory)
                 nil t nil "-Q" "--batch" args)
          (buffer-string))))

(ert-deftest edn-bridge-package-is-built-and-installs ()
  (skip-unless (executable-find "tar"))
  (let ((folder (make-temp-file "edn-bridge-package" t)))
    (unwind-protect
        (pcase-let* ((`(,status ,output)
                      (edn-bridge-package-tests-emacs
                       "-l" (expand-file-name "../build-package.el"
                                              edn-bridge-test-directory)
                       folder))
                     (tar (car (directory-files folder t "\\.tar\\'"))))
          (ert-info (output)
            (should (zerop status))
            (should tar))
          (pcase-let ((`(,status ,output)
                       (edn-bridge-package-tests-emacs
                        "--eval"
                        (format "(setq package-user-dir %S)"
                                (expand-file-name "elpa" folder))
                        "--eval" "(package-initialize)"
                        "--eval" (format "(package-install-file %S)" tar)
                        "--eval" "(princ (list (commandp 'edn-bridge) (commandp 'edn-bridge-ask-region)))"
                        "--eval" "(require 'edn-bridge)"
                        "--eval" "(princ edn-bridge-constants-protocol-version)")))
            (ert-info (output)
              (should (zerop status))
              (should (string-match-p "(t t)" output))
              (should-not (string-match-p "Warning: [^(]*edn-bridge" output)))))
      (delete-directory folder t))))

(defun edn-bridge-package-tests-requires (file)
  "Return the files of the package that FILE requires, without prefix."
  (with-temp-buffer
    (insert-file-contents file)
    (let ((names nil))
      (while (re-search-forward "^(require 'edn-bridge-\\([a-z-]+\\))" nil t)
        (push (match-string 1) names))
      (nreverse names))))

(defconst edn-bridge-package-tests-order
  '("constants" "edn" "rpc" "transcript" "markdown" "chat" "messages" "input"
    "complete" "tools" "interact" "actions" "attention" "models" "sessions"
    "tree" "jobs" "ask" "query" "log" "doctor" "batch")
  "The files of the package; each may use those before it.")

(ert-deftest edn-bridge-package-depends-in-one-direction ()
  (let ((folder (expand-file-name ".." edn-bridge-test-directory))
        (seen nil))
    (dolist (name edn-bridge-package-tests-order)
      (let ((file (expand-file-name (format "edn-bridge-%s.el" name) folder)))
        (dolist (required (edn-bridge-package-tests-requires file))
          (ert-info ((format "%s requires %s" name required))
            (should (member required seen))))
        (push name seen)))
    (should (equal (sort (mapcar
                          (lambda (file)
                            (string-remove-suffix
                             ".el" (string-remove-prefix "edn-bridge-" file)))
                          (seq-remove
                           (lambda (file)
                             (string-match-p
                              "-\\(?:autoloads\\|pkg\\)\\.el\\'" file))
                           (directory-files
                            folder nil "\\`edn-bridge-[a-z-]*\\.el\\'")))
                         #'string-lessp)
                   (sort (copy-sequence edn-bridge-package-tests-order)
                         #'string-lessp)))))

(ert-deftest edn-bridge-package-manual-names-all-commands-and-options ()
  (let ((text (with-temp-buffer
                (insert-file-contents
                 (expand-file-name "../README.md" edn-bridge-test-directory))
                (buffer-string)))
        (missing nil))
    (mapatoms
     (lambda (symbol)
       (let ((name (symbol-name symbol)))
         (when (and (string-prefix-p "edn-bridge" name)
                    (not (string-search "--" name))
                    (not (string-match-p "-mode\\(?:-hook\\)?\\'" name))
                    (not (equal name "edn-bridge-example"))
                    (not (string-prefix-p "edn-bridge-test" name))
                    (or (commandp symbol) (custom-variable-p symbol))
                    (not (string-match-p (format "`\\(?:M-x \\)?%s`"
                                                 (regexp-quote name))
                                         text)))
           (push name missing)))))
    (should (equal (sort missing #'string-lessp) nil))))

(provide 'edn-bridge-package-tests)

;;; edn-bridge-package-tests.el ends here
