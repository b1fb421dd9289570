;;; edn-bridge-screens-tests.el --- What small terminals show  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The menus, the help and the header line on terminals of 80×24, 60×20 and
;; 33 columns, compared with the files in screens/.  UPDATE_SCREENS=1 writes
;; these; look at the difference like code.

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-terminal-tests)

(defconst edn-bridge-screens-tests-sizes '((80 . 24) (60 . 20) (33 . 24))
  "Columns and rows of the terminals.")

(defun edn-bridge-screens-tests-part (from)
  "Return the lines of the screen from the one that FROM matches to the last.
Lines without letters and the space between columns, which versions of
transient draw in their own way, are left out."
  (let ((lines (split-string (edn-bridge-terminal-tests-see from) "\n")))
    (while (not (string-match-p from (car lines)))
      (pop lines))
    (concat (mapconcat (lambda (line)
                         (replace-regexp-in-string "\\( \\) +" "  "
                                                   (string-trim-right line)))
                       (seq-filter (lambda (line)
                                     (string-match-p "[a-z]" line))
                                   lines)
                       "\n")
            "\n")))

(defun edn-bridge-screens-tests-compare (name from)
  "Wait until the screen from FROM on is the golden screen NAME of this size."
  (let* ((file (expand-file-name
                (format "screens/%s-%dx%d.txt" name
                        (car edn-bridge-terminal-tests-size)
                        (cdr edn-bridge-terminal-tests-size))
                edn-bridge-test-directory))
         (golden (and (not (getenv "UPDATE_SCREENS"))
                      (with-temp-buffer
                        (insert-file-contents file)
                        (buffer-string))))
         (deadline (+ (float-time) (if golden 20 2)))
         (text nil))
    (while (and (not (equal golden
                            (setq text (edn-bridge-screens-tests-part from))))
                (< (float-time) deadline))
      (sleep-for 0.05))
    (dolist (line (split-string text "\n"))
      ;; What Emacs and transient put where a line is cut or goes on.
      (should-not (string-match-p "[$\\]$" line)))
    (if golden
        (should (equal text golden))
      (make-directory (file-name-directory file) t)
      (write-region text nil file nil 'quiet))))

(defun edn-bridge-screens-tests-labels (groups)
  "Check that the screen has the labels of GROUPS whole."
  (let ((screen (edn-bridge-terminal-tests-screen)))
    (pcase-dolist (`(,_title ,_key . ,rows) groups)
      (pcase-dolist (`(,key ,_command ,label) rows)
        (ert-info (label)
          (should (string-match-p
                   (format "\\(?:^\\| \\)%s %s\\(?: \\|$\\)" (regexp-quote key)
                           (regexp-quote label))
                   screen)))))))

(ert-deftest edn-bridge-screens-menu-fits-small-terminals ()
  (dolist (edn-bridge-terminal-tests-size edn-bridge-screens-tests-sizes)
    (edn-bridge-terminal-tests-with-emacs "keys.edn"
      (let* ((narrow (< (car edn-bridge-terminal-tests-size) 60))
             (top (if narrow "^Answer and look" "^Talk")))
        (edn-bridge-terminal-tests-do '("C-c" "?"))
        (edn-bridge-screens-tests-compare
         "menu" top)
        (edn-bridge-screens-tests-labels
         (seq-remove (lambda (group)
                       (if narrow (nth 1 group) (stringp (nth 1 group))))
                     edn-bridge--menu))
        (edn-bridge-terminal-tests-do '("C-g"))
        (dolist (group edn-bridge--menu)
          (when (or (stringp (nth 1 group)) (and narrow (nth 1 group)))
            (let ((first (nth 2 group))
                  (key (car (ensure-list (nth 1 group)))))
              (edn-bridge-terminal-tests-do '("C-c" "?") top (list key))
              (edn-bridge-screens-tests-compare
               (concat "menu-" key)
               (format "^ %s %s" (nth 0 first) (nth 2 first)))
              (edn-bridge-screens-tests-labels (list group))
              (edn-bridge-terminal-tests-do '("C-g" "C-g")))))))))

(provide 'edn-bridge-screens-tests)

;;; edn-bridge-screens-tests.el ends here
