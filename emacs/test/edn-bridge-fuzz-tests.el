;;; edn-bridge-fuzz-tests.el --- Hostile and random markdown  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What holds for any text of an answer, however it is cut into deltas:
;;
;; - the text that is copied is the text that came;
;; - it looks the same as if it had come at once;
;; - no line is longer than what Emacs lays out quickly;
;; - no character is shown that cannot be seen;
;; - the work is bounded: signs looked at by the length of the text, and
;;   the time, generously, for what takes minutes where it is not bounded.
;;
;; The suite runs some hundred texts of a fixed seed; `make fuzz-emacs' continues with others for FUZZ_SECONDS and prints the seed of what fails.

;;; Code:

(require 'edn-bridge-test-support)

(defconst edn-bridge-fuzz-tests-atoms
  ["a" "word " "\n" "\n\n" "`" "``" "```" "```el\n" "```python\n" "```server\n"
   "~~~\n" "*" "**" "_" "__" "~~" "[" "]" "](" ")" "[a](b)" "[x](/ssh:h:/y)"
   "![i](u)" "<" ">" "> " ">> " "|" "| a | b |\n" "|---|:-:|\n" "# " "###### "
   "- " "* " "  - " "1. " "1) " "- [ ] " "- [x] " "---\n" "***\n" "\\*" "\\"
   "https://a.b/c?d=e" "http://" "mailto:x" "\t" " " "    " "\"\"\"a\n'\n"
   "$(cat <<E\n" "((((" "]]]]" "{[(<" "שלום" "مرحبا " "日本語" "🏳️‍🌈"
   "\u202E" "\u2066" "\u2069" "\u200B" "\u200F" "\uE000" "\U000E0041" "\u2028"
   "\r" "\e[31m" "\0" "e\u0301" "snake_case_name" "2 * 3 * 4" "#+begin_src x\n"
   "Local Variables:\n" "eval: (x)\n" "%s" "\\\\(" "&amp;" "^[1]" "[^1]: n\n"]
  "What random texts are made of.")

(defun edn-bridge-fuzz-tests-text ()
  "Return a random text."
  (let ((parts nil))
    (dotimes (_ (1+ (random 60)))
      (let ((atom (aref edn-bridge-fuzz-tests-atoms
                        (random (length edn-bridge-fuzz-tests-atoms)))))
        ;; Now and then the same many times: that is what takes long.
        (dotimes (_ (if (zerop (random 40)) (1+ (random 400)) 1))
          (push atom parts))))
    (apply #'concat parts)))

(defun edn-bridge-fuzz-tests-hostile (size)
  "Return texts of about SIZE characters that are made to take long."
  (cl-flet ((many (text)
              (apply #'concat
                     (make-list (/ size (length text)) text))))
    (list (many "[") (many "(") (many "]") (many "[a") (many "[a](")
          (many "*") (many "*a") (many "**a") (many "_a ") (many "`a")
          (many "``a") (many "~~a") (many "h") (many "http://") (many "https://.")
          (many "https://a........") (many "ש") (many "שלום ") (many "שלום a[1] ")
          (many "\u202Ea") (many "\u2067a") (many "\u200B") (many "🏳️‍🌈")
          (many "x") (many "\n") (many "a\n") (many " ") (many "> ") (many "|")
          (many "| a ") (many "|---") (many "- ") (many "#") (many "\t")
          (many (concat (make-string 1899 ?\[) "\n"))
          (concat "```python\n" (many "\"\"\"a\n'\n") "```\n")
          (concat "```c\n" (many "{(<[\n") "```\n")
          (concat "```html\n" (many "<a '\n") "```\n")
          (concat "```el\n" (many "(") "\n```\n")
          (many "```\n") (many "```el\n") (many "~~~\n```\n"))))

(defun edn-bridge-fuzz-tests-look (start end)
  "Return how the text between START and END looks: runs and their faces."
  (let ((runs nil)
        (place start))
    (while (< place end)
      (let ((next (next-property-change place nil end)))
        (push (list (buffer-substring-no-properties place next)
                    (get-text-property place 'face)
                    (get-text-property place 'edn-bridge-markdown-target)
                    (get-text-property place 'display))
              runs)
        (setq place next)))
    ;; Properties that do not matter may cut runs in two.
    (let ((merged nil))
      (dolist (run runs)
        (if (and merged (equal (cdr run) (cdr (car merged))))
            (setcar (car merged) (concat (car run) (car (car merged))))
          (push run merged)))
      merged)))

(defun edn-bridge-fuzz-tests-show (conn pieces)
  "Have CONN receive the answer that consists of PIECES."
  (dolist (piece pieces)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                           :text piece))
  (edn-bridge-test-event
   conn "assistant/message" :session-id "s1" :role "assistant"
   :content (vector (list :type :text :text (apply #'concat pieces)))))

(defun edn-bridge-fuzz-tests-cut (text)
  "Return TEXT in random pieces."
  (let ((pieces nil)
        (start 0))
    (while (< start (length text))
      (let ((end (min (length text) (+ start 1 (random 40)))))
        (push (substring text start end) pieces)
        (setq start end)))
    (nreverse pieces)))

(defun edn-bridge-fuzz-tests-check (text)
  "Check what holds for TEXT, however it comes."
  (setq edn-bridge-markdown--steps 0)
  (let ((looks nil))
    (dolist (pieces (list (list text) (edn-bridge-fuzz-tests-cut text)))
      (edn-bridge-test-with-chat (conn _sent)
        (edn-bridge-fuzz-tests-show conn pieces)
        (let ((start (+ (point-min) (length "Assistant\n")))
              (end (edn-bridge-transcript-end)))
          (should (equal (string-trim-right (edn-bridge-test-transcript) "\n+")
                         (string-trim-right (concat "Assistant\n" text) "\n+")))
          (edn-bridge-fuzz-tests-check-lines start end)
          (edn-bridge-fuzz-tests-check-hidden start end)
          (while edn-bridge-markdown--buffers
            (edn-bridge-markdown-fontify-blocks))
          (should-not (bound-and-true-p server-process))
          (push (edn-bridge-fuzz-tests-look start end) looks))))
    ;; The second piece is looked at again while a line is not complete.
    (should (< edn-bridge-markdown--steps (* 60 (+ 100 (length text)))))
    ;; Longer lines may be broken elsewhere, and of a piece with very many
    ;; hidden characters only the first are shown.
    (when (and (< (length text) edn-bridge-visible--order-line-limit)
               (< (cl-count-if (lambda (char)
                                 (string-match-p edn-bridge-visible--regexp
                                                 (string char)))
                               text)
                  edn-bridge-visible--limit))
      (should (equal (nth 0 looks) (nth 1 looks))))))

(defun edn-bridge-fuzz-tests-check-lines (start end)
  "Check that no line between START and END is too long to be laid out."
  (goto-char start)
  (while (< (point) end)
    (let ((from (point)))
      (forward-line)
      (should (<= (- (point) from) (1+ edn-bridge-visible-line-limit))))))

(defun edn-bridge-fuzz-tests-check-hidden (start end)
  "Check that all that is between START and END can be seen."
  (goto-char start)
  (while (re-search-forward edn-bridge-visible--regexp end t)
    (let ((place (match-beginning 0)))
      (should (or (get-text-property place 'display)
                  (edn-bridge-visible--in-emoji-p place (char-after place)))))))

(defun edn-bridge-fuzz-tests-run (seed)
  "Check the random text of SEED, a string."
  (random seed)
  (let ((text (edn-bridge-fuzz-tests-text)))
    (ert-info ((format "seed %s: %S" seed text))
      (edn-bridge-fuzz-tests-check text))))

(ert-deftest edn-bridge-fuzz-random-texts-hold ()
  (let ((inhibit-message t))
    (dotimes (index 150)
      (edn-bridge-fuzz-tests-run (format "seed %d" index)))))

(ert-deftest edn-bridge-fuzz-hostile-texts-are-bounded ()
  (let ((inhibit-message t))
    (dolist (text (edn-bridge-fuzz-tests-hostile 12000))
      (ert-info ((format "%S…" (substring text 0 20)))
        (setq edn-bridge-markdown--steps 0)
        (let ((begun (float-time)))
          (edn-bridge-test-with-chat (conn _sent)
            (edn-bridge-fuzz-tests-show conn (list text))
            (edn-bridge-fuzz-tests-check-lines (point-min)
                                               (edn-bridge-transcript-end))
            (edn-bridge-fuzz-tests-check-hidden (point-min)
                                                (edn-bridge-transcript-end))
            (let ((looks 0))
              (while edn-bridge-markdown--buffers
                (should (< (cl-incf looks) 100))
                (edn-bridge-markdown-fontify-blocks)))
            (should (equal (string-trim-right (edn-bridge-test-transcript) "\n+")
                           (string-trim-right (concat "Assistant\n" text)
                                              "\n+"))))
          (should (<= edn-bridge-markdown--steps (* 2 (length text))))
          ;; Minutes, where something is not bounded.
          (should (< (- (float-time) begun) 10)))))))

(defun edn-bridge-fuzz-tests-batch ()
  "Check random texts for FUZZ_SECONDS (60), and say which one fails."
  (let ((deadline (+ (float-time)
                     (string-to-number (or (getenv "FUZZ_SECONDS") "60"))))
        (base (let ((seed (getenv "FUZZ_SEED")))
                (if (member seed '(nil ""))
                    (format "%d" (floor (float-time)))
                  seed)))
        (count 0)
        (inhibit-message t))
    (while (< (float-time) deadline)
      (let ((seed (format "%s/%d" base count)))
        (condition-case err
            (edn-bridge-fuzz-tests-run seed)
          (error
           (setq inhibit-message nil)
           (message "seed %S fails: %S" seed err)
           (kill-emacs 1))))
      (cl-incf count))
    (setq inhibit-message nil)
    (message "%d texts of the seed %s hold" count base)))

(provide 'edn-bridge-fuzz-tests)

;;; edn-bridge-fuzz-tests.el ends here
