;;; edn-bridge-words-tests.el --- The words of the field  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What a person reads has the field's word for each thing.
;; banned-phrases.txt lists what is not written, and what is instead.

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-words-tests-root
  (expand-file-name "../../" edn-bridge-test-directory)
  "The folder of the project.")

(defun edn-bridge-words-tests-phrases ()
  "Return the phrases that are not written: conses of a regexp and a word."
  (with-temp-buffer
    (insert-file-contents (expand-file-name "banned-phrases.txt"
                                            edn-bridge-words-tests-root))
    (cl-loop for line in (split-string (buffer-string) "\n" t)
             unless (string-prefix-p "#" line)
             collect (pcase-let ((`(,phrase ,word) (split-string line "\t" t)))
                       (should word)
                       (cons (concat "\\b"
                                     (string-replace " " "[ \t\n;]+" phrase))
                             word)))))

(defun edn-bridge-words-tests-files ()
  "Return the files that a person reads."
  (let ((root edn-bridge-words-tests-root))
    (append (directory-files (expand-file-name "emacs" root) t
                             "\\`edn-bridge.*\\.el\\'")
            (directory-files (expand-file-name "docs" root) t "\\.md\\'")
            (list (expand-file-name "emacs/README.md" root)
                  (expand-file-name "README.md" root)))))

(defun edn-bridge-words-tests-found (file phrases)
  "Return where FILE has one of PHRASES: a list of texts."
  (with-temp-buffer
    (insert-file-contents file)
    (let ((case-fold-search t))
      (cl-loop for (regexp . word) in phrases
               do (goto-char (point-min))
               append (cl-loop while (re-search-forward regexp nil t)
                               collect (format "%s:%d: \"%s\": %s"
                                               (file-name-nondirectory file)
                                               (line-number-at-pos
                                                (match-beginning 0))
                                               (match-string 0) word))))))

(ert-deftest edn-bridge-words-are-those-of-the-field ()
  (let ((phrases (edn-bridge-words-tests-phrases)))
    (should (> (length phrases) 15))
    (should-not (mapcan (lambda (file)
                          (edn-bridge-words-tests-found file phrases))
                        (edn-bridge-words-tests-files)))))

(ert-deftest edn-bridge-words-that-are-banned-are-found ()
  (let ((file (make-temp-file "edn-words")))
    (unwind-protect
        (progn
          (write-region ";; Let the messages\n;; go on.  It is an Agent of\n;; others.\n"
                        nil file nil 'quiet)
          (should (= 2 (length (edn-bridge-words-tests-found
                                file (edn-bridge-words-tests-phrases))))))
      (delete-file file))))

(ert-deftest edn-bridge-words-of-the-menu-are-short ()
  "What the menu and the labels of keys say fits in a column of the menu."
  (dolist (group edn-bridge--menu)
    (dolist (row (cdr group))
      (when (stringp (car-safe (cdr-safe (cdr-safe row))))
        (ert-info ((nth 2 row))
          (should (<= (length (nth 2 row)) 27)))))))

(provide 'edn-bridge-words-tests)

;;; edn-bridge-words-tests.el ends here
