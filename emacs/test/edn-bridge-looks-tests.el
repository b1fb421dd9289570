;;; edn-bridge-looks-tests.el --- Tests of how a chat looks  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)

(defun edn-bridge-looks-tests-call (conn id name summary)
  "Have CONN receive a call ID of the tool NAME with SUMMARY, and its result."
  (edn-bridge-test-event conn "tool/start" :session-id "s1" :tool-id id
                         :tool-name name :call-summary summary)
  (edn-bridge-test-event conn "tool/result" :session-id "s1" :tool-id id
                         :tool-name name :call-summary summary
                         :is-error :false :result-text "out"))

(ert-deftest edn-bridge-looks-tool-rows-are-aligned ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-looks-tests-call conn "c1" "bash" "one")
    (edn-bridge-looks-tests-call conn "c2" "读取" "two 世界")
    (edn-bridge-looks-tests-call conn "c3" "🎉" "three")
    (edn-bridge-looks-tests-call conn "c4" "grep" "ארבע")
    (save-window-excursion
      (set-window-buffer nil (current-buffer))
      (dolist (summary '("one" "two" "three" "ארבע"))
        (goto-char (point-min))
        (search-forward summary)
        (goto-char (match-beginning 0))
        (ert-info (summary)
          (should (= (current-column) 11)))
        ;; The state stands at the right edge, whatever comes before.
        (end-of-line)
        (search-backward "done")
        (should (equal (get-text-property (1- (point)) 'display)
                       '(space :align-to (- right 5))))))))

(ert-deftest edn-bridge-looks-long-summaries-are-cut-to-the-row ()
  (edn-bridge-test-with-chat (conn _sent)
    (dolist (text (list (make-string 500 ?x) (make-string 500 ?世)
                        "two\nlines\tand\ttabs"))
      (edn-bridge-transcript-clear)
      (edn-bridge-looks-tests-call conn "c1" "bash" text)
      (goto-char (point-min))
      (forward-line)
      (should (< (string-width (buffer-substring (point) (line-end-position)))
                 80))
      (forward-line)
      (should (= (point) (edn-bridge-transcript-end))))))

(ert-deftest edn-bridge-looks-fold-indicators-are-what-the-display-has ()
  (edn-bridge-test-with-chat (conn _sent)
    (pcase-dolist (`(,able ,folded ,unfolded) '((t "▸ " "▾ ") (nil "> " "v ")))
      (cl-letf (((symbol-function 'char-displayable-p) (lambda (_char) able)))
        (edn-bridge-transcript-clear)
        (edn-bridge-looks-tests-call conn "c1" "bash" "ls")
        (should (string-prefix-p (concat "Assistant\n" folded) (edn-bridge-test-transcript)))
        (edn-bridge-tools-toggle)
        (should (string-prefix-p (concat "Assistant\n" unfolded) (edn-bridge-test-transcript)))))))

(defun edn-bridge-looks-tests-direction (text)
  "Return the direction of the paragraph that TEXT of this buffer is in."
  (goto-char (point-min))
  (search-forward text)
  (let ((redisplay--inhibit-bidi nil))
    (current-bidi-paragraph-direction)))

(ert-deftest edn-bridge-looks-every-line-has-its-own-direction ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages [(:id "e1" :role "user"
                     :content [(:type :text :text "שלום עולם")])
                (:id "e2" :role "assistant"
                     :content [(:type :text :text "Hello\nمرحبا 123\n")])])
    (pcase-dolist (`(,text ,direction) '(("You" left-to-right)
                                         ("שלום" right-to-left)
                                         ("Assistant" left-to-right)
                                         ("Hello" left-to-right)
                                         ("مرحبا" right-to-left)))
      (ert-info (text)
        (should (eq (edn-bridge-looks-tests-direction text) direction))))))

(ert-deftest edn-bridge-looks-a-row-is-not-turned-around ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-looks-tests-call conn "c1" "bash" "rm שלום")
    (should (eq (edn-bridge-looks-tests-direction "rm") 'left-to-right))
    ;; A mark ends what is written from right to left before the state.
    (should (string-match-p "rm שלום\N{LEFT-TO-RIGHT MARK} done"
                            (edn-bridge-test-transcript)))))

(defun edn-bridge-looks-tests-fixed-p (text)
  "Return non-nil if TEXT in this buffer has a face of fixed width."
  (goto-char (point-min))
  (search-forward text)
  (cl-labels ((fixed (face)
                (cond ((eq face 'edn-bridge-mono) t)
                      ((consp face) (cl-some #'fixed face))
                      ((facep face)
                       (let ((parents (face-attribute face :inherit)))
                         (and (not (memq parents '(unspecified nil)))
                              (fixed parents)))))))
    (fixed (get-text-property (match-beginning 0) 'face))))

(ert-deftest edn-bridge-looks-columns-hold-with-proportional-fonts ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event
     conn "session/rehydrated" :session-id "s1"
     :messages
     [(:id "e1" :role "assistant"
           :content [(:type :text :text "Prose with `code`.\n\n```\nblock\n```\n\n| a | cell |\n")])])
    (edn-bridge-looks-tests-call conn "c1" "bash" "ls")
    (edn-bridge-tools-toggle)
    (edn-bridge-test-event
     conn "tool/result" :session-id "s1" :tool-id "c2" :tool-name "edit"
     :call-summary "a" :is-error :false :result-text "ok"
     :details '(:diff "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n"))
    (dolist (text '("`code" "block" "| cell" "bash" "done" "out" "@@ -1" "-old"
                    "+new" " same"))
      (ert-info (text)
        (should (edn-bridge-looks-tests-fixed-p text))))
    (should-not (edn-bridge-looks-tests-fixed-p "Prose"))))

(ert-deftest edn-bridge-looks-wide-text-is-shown-as-it-is ()
  (let ((text "日本語 한국어 🎉🏳️‍🌈 e\N{COMBINING ACUTE ACCENT} שלום \u200fx\n"))
    (edn-bridge-test-with-chat (conn _sent)
      (mapc (lambda (char)
              (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                                     :text (string char)))
            text)
      (edn-bridge-test-event
       conn "assistant/message" :session-id "s1" :role "assistant"
       :content (vector (list :type :text :text text)))
      (should (equal (edn-bridge-test-transcript)
                     (concat "Assistant\n" text))))))

(ert-deftest edn-bridge-looks-narrow-window-wraps-everything ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-ask conn "approve" '(:tool "bash" :command "x"
                                          :suggested-rule "r"))
    (save-window-excursion
      (delete-other-windows)
      (set-window-buffer nil (current-buffer))
      (let ((window (split-window nil 30 'left)))
        (set-window-buffer window (current-buffer))
        (should (< (window-width window) 50))
        (goto-char (point-min))
        (search-forward "[Allow once")
        (should (> (count-screen-lines (line-beginning-position)
                                       (line-end-position) nil window)
                   1))
        (should word-wrap-by-category)))))

(ert-deftest edn-bridge-looks-window-is-filled-to-its-end ()
  (edn-bridge-test-with-chat (conn _sent)
    (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                           :text (mapconcat #'number-to-string
                                            (number-sequence 1 200) "\n"))
    (save-window-excursion
      (delete-other-windows)
      (set-window-buffer nil (current-buffer))
      (goto-char (point-max))
      (set-window-point nil (point-max))
      ;; As after a window below it went away.
      (set-window-start nil (edn-bridge-transcript-draft-start))
      (edn-bridge-test-event conn "session/updated" :session-id "s1")
      (should (> (count-screen-lines (window-start) (point-max))
                 (/ (window-body-height) 2)))
      ;; Who reads further up is left there.
      (set-window-point nil (point-min))
      (set-window-start nil (point-min))
      (edn-bridge-test-event conn "session/updated" :session-id "s1")
      (should (= (window-start) (point-min))))))

(ert-deftest edn-bridge-looks-lines-that-reorder-text-are-short ()
  (dolist (case `(("\u202Ea" . ,edn-bridge-visible--order-line-limit)
                  ("\u2068\u05E9\u2069" . ,edn-bridge-visible--order-line-limit)
                  ("\u05E9" . ,edn-bridge-visible--rtl-line-limit)
                  ("\u0F62\u0F90" . ,edn-bridge-visible--rtl-line-limit)
                  ("a" . ,edn-bridge-visible-line-limit)))
    (let* ((text (apply #'concat (make-list 3000 (car case))))
           (lines (split-string (edn-bridge-visible-break text 0) "\n")))
      (should (<= (apply #'max (mapcar #'length lines)) (cdr case)))
      (should (equal (apply #'concat lines) text)))))

(ert-deftest edn-bridge-looks-piled-marks-are-counted ()
  (dolist (mark '(#x301 #xE49 #xF90 #x64B #x20DD))
    (dolist (count '(8 9 300 30000))
      (with-temp-buffer
        (insert "é " (string ?a) (make-string count mark) "b é")
        (edn-bridge-visible-region (point-min) (point-max))
        (let* ((first (+ 4 8))
               (shown (get-text-property first 'display)))
          (ert-info ((format "%d times %x" count mark))
            (should (equal (and shown (substring-no-properties shown))
                           (and (> count 8)
                                (format "[%d more marks]" (- count 8)))))
            (should-not (get-text-property (1- first) 'display))
            (should-not (get-text-property (- (point-max) 3) 'display))))))))

(ert-deftest edn-bridge-looks-rows-fit-the-narrowest-window ()
  (edn-bridge-test-with-chat (conn _sent)
    (save-window-excursion
      (delete-other-windows)
      (set-window-buffer (selected-window) (current-buffer))
      (let ((whole (edn-bridge-tools-width)))
        (split-window-horizontally 40)
        (should (< 30 (edn-bridge-tools-width) 40))
        (select-window (next-window))
        (should (< 30 (edn-bridge-tools-width) 40))
        (edn-bridge-looks-tests-call conn "c1" "bash" (make-string 90 ?x))
        (goto-char (point-min))
        (search-forward "bash")
        (should (< (- (line-end-position) (line-beginning-position)) 40))
        (delete-other-windows)
        (should (= (edn-bridge-tools-width) whole)))
      ;; So does the rule above the draft.
      (should (< (apply #'max (mapcar #'string-width
                                      (split-string
                                       (edn-bridge-transcript-footer) "\n")))
                 33)))))

(provide 'edn-bridge-looks-tests)

;;; edn-bridge-looks-tests.el ends here
