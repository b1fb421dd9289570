;;; edn-bridge-usage-tests.el --- Tests of tokens and cost over time  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Figures of the real program, of a script in its place, and the image.

;;; Code:

(require 'ert)
(require 'dom)
(require 'edn-bridge)
(require 'edn-bridge-live-tests)

(defconst edn-bridge-usage-tests-rows
  '(("2026-01-01" 3 1000 0 80 0.5) ("2026-01-02" 1 40 9 5 0.25)
    ("a\e[2Jb" 1 7 0 0 0.0))
  "Figures as they are read: label, calls, input, cached, output, cost.")

(defun edn-bridge-usage-tests-buffer ()
  "Return what the buffer with figures says once they are there."
  (with-current-buffer "*edn-bridge usage*"
    (edn-bridge-test-wait (not (process-live-p edn-bridge-usage--process)))
    (edn-bridge-test-wait (not (string-match-p "\\`Reading" (buffer-string))))
    (buffer-substring-no-properties (point-min) (point-max))))

(ert-deftest edn-bridge-usage-shows-the-figures-of-the-program ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (let ((day (format-time-string "%F" nil t)))
      (save-window-excursion
        (edn-bridge-usage)
        (should (equal (edn-bridge-usage-tests-buffer)
                       "No model was called yet.\n"))
        (dotimes (_ 2)
          (apply #'call-process edn-bridge-program nil nil nil
                 (append edn-bridge-program-args '("prompt" "hello"))))
        ;; Midnight may have come between the calls.
        (skip-unless (equal day (format-time-string "%F" nil t)))
        (with-current-buffer "*edn-bridge usage*"
          (pcase-dolist (`(,key . ,label)
                         `(("d" . ,day)
                           ("P" . ,(directory-file-name
                                    (file-truename default-directory)))
                           ("m" . "scripted scripted")))
            (call-interactively (key-binding key))
            (let ((text (edn-bridge-usage-tests-buffer)))
              (should (string-match-p
                       (concat "^" (regexp-quote label)
                               " +2 +20 +0 +10 +-  █\\{30\\}$")
                       text))))
          (call-interactively (key-binding "s"))
          (should (= 3 (length (split-string (edn-bridge-usage-tests-buffer)
                                             "\n" t))))
          (kill-buffer))))))

(ert-deftest edn-bridge-usage-says-when-there-are-no-figures ()
  (let ((edn-bridge-program "false") (edn-bridge-program-args nil))
    (save-window-excursion (edn-bridge-usage 'day))
    (should (string-match-p "cannot be read; M-x edn-bridge-doctor"
                            (edn-bridge-usage-tests-buffer))))
  ;; What the program says stands below, and no buffer is left of it.
  (pcase-dolist (`(,script . ,expected)
                 '(("echo 'not a\e[2J folder' >&2; exit 1"
                    . "doctor says more\\.\n\nnot a\\\\u{1B}\\[2J folder\n\\'")
                   ("echo '[]'; echo passed over >&2"
                    . "\\`No model was called yet\\.\n\npassed over\n\\'")))
    (let ((edn-bridge-program "sh")
          (edn-bridge-program-args (list "-c" script)))
      (save-window-excursion (edn-bridge-usage 'day))
      (should (string-match-p expected (edn-bridge-usage-tests-buffer)))
      (should-not (cl-some (lambda (buffer)
                             (string-match-p "edn-bridge usage \\(?:errors\\|output\\)"
                                             (buffer-name buffer)))
                           (buffer-list)))))
  (let ((edn-bridge-program "/no/such/edn-bridge") (edn-bridge-program-args nil))
    (save-window-excursion (edn-bridge-usage 'day))
    (should (string-match-p "/no/such/edn-bridge"
                            (edn-bridge-usage-tests-buffer))))
  (kill-buffer "*edn-bridge usage*"))

(ert-deftest edn-bridge-usage-bars-are-as-long-as-their-share ()
  (should (equal (edn-bridge-usage--bar 0 10) ""))
  (should (equal (edn-bridge-usage--bar 10 10) (make-string 30 ?█)))
  (should (equal (edn-bridge-usage--bar 5 10) (make-string 15 ?█)))
  (should (equal (edn-bridge-usage--bar 1 1000000) "▏"))
  (should (equal (edn-bridge-usage--bar 0 0) ""))
  (cl-letf (((symbol-function 'char-displayable-p) #'ignore))
    (should (equal (edn-bridge-usage--bar 5 10) (make-string 15 ?#)))))

(ert-deftest edn-bridge-usage-lines-have-numbers-and-no-hidden-characters ()
  (let ((text (edn-bridge-usage--table edn-bridge-usage-tests-rows 'day)))
    (should (string-match-p
             "^2026-01-02 +1 +40 +9 +5 +0\\.2500  █\\{15\\}$"
             (substring-no-properties text)))
    (should (string-match-p "^a\\\\u{1B}\\[2Jb " text))
    (should-not (string-match-p "\e" text))))

(ert-deftest edn-bridge-usage-image-has-a-bar-for-each-row ()
  (let* ((svg (edn-bridge-usage--svg edn-bridge-usage-tests-rows))
         (bars (dom-by-tag svg 'rect)))
    (should (equal (mapcar (lambda (bar) (dom-attr bar 'width)) bars)
                   '(400.0 200.0 0.0)))
    (should (equal (mapcar #'dom-text (seq-take (dom-by-tag svg 'text) 2))
                   '("2026-01-01" "$0.5000")))
    (with-temp-buffer
      (svg-print svg)
      (goto-char (point-min))
      (should-not (search-forward "\e" nil t))))
  ;; Of many rows the last ones are drawn.
  (let ((rows (mapcar (lambda (day) (list (format "day %d" day) 1 1 0 0 0.0))
                      (number-sequence 1 100))))
    (should (= 60 (length (dom-by-tag (edn-bridge-usage--svg rows) 'rect))))))

(ert-deftest edn-bridge-usage-of-a-session-is-a-page-not-a-map ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1"
                           :session-name "Keys")
    (save-window-excursion
      (save-current-buffer
        (edn-bridge-models-show-stats)
        ;; Its keys work at once.
        (should (eq (key-binding "q") #'quit-window)))
      (edn-bridge-test-answer
       conn sent "get_session_stats"
       :stats '(:session-id "s1" :messages (:user 2 :assistant 3) :message-count 5
                :turns 2 :turns-stopped 1 :tool-calls ("bash" 1200 "edit" 1)
                :tool-errors nil :tokens (:input 1234567 :output 89 :total 1234656)
                :cost 0.09368429999999998 :working-ms 65000 :duration-ms 7260000
                :bytes 20480)))
    (should (equal (edn-bridge-test-transcript) ""))
    (with-current-buffer "*edn-bridge usage of a session*"
      (dolist (line '("Usage of Keys" "Messages       5: user 2, assistant 3"
                      "Turns          2, 1 stopped"
                      "Tool calls     1,201: bash 1,200, edit 1"
                      "Input tokens   1,234,567" "Cost           $0.09"
                      "Working time   1 min 5 s" "Open for       2 h 1 min"))
        (goto-char (point-min))
        (ert-info (line)
          (should (search-forward line nil t))))
      (goto-char (point-min))
      (should-not (re-search-forward "[{}]\\|:[a-z]" nil t))
      (save-window-excursion
        (revert-buffer))
      (should (= 2 (cl-count "get_session_stats" sent :test #'equal
                             :key (lambda (frame) (plist-get frame :op)))))
      (kill-buffer))))

(provide 'edn-bridge-usage-tests)

;;; edn-bridge-usage-tests.el ends here
